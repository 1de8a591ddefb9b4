{{ config(materialized='table') }}
select origin, team, valid_from, valid_to from VERSIONS(TABLE({{ ref('on_call') }}) PARTITION BY origin ORDER BY since)
