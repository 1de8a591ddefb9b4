{{ config(materialized='table') }}
select * from DEDUPLICATE(TABLE({{ ref('alerts') }}) PARTITION BY origin ORDER BY departed, within => INTERVAL 1 HOUR)
