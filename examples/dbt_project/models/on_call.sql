{{ config(materialized='versioned_table', key='origin', time='since', grace='10 days') }}
select origin, since, team from {{ ref('on_call_changes') }} where told < date'{{ var("until") }}'
