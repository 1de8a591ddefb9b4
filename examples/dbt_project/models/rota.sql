{# Every shift that was told of, late ones in their place: `on_call` leaves out what is older than its grace. #}
{{ config(materialized='apply_changes', keys='origin', sequence_by='since', scd=2) }}
select origin, since, team from {{ ref('on_call_changes') }} where told < date'{{ var("until") }}'
