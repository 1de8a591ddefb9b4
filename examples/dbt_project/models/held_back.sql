{{ config(materialized='view') }}
select flight_id, origin, departed, reason, kept_time
from DEDUPLICATE(TABLE({{ ref('alerts') }}) PARTITION BY origin ORDER BY departed, within => INTERVAL 1 HOUR, output => 'dropped')
