{# Who was on call when the page came. #}
{{ config(materialized='table') }}
select p.origin, p.departed, p.flight_id, c.team
from {{ ref('pages_log') }} p left asof join {{ ref('on_call') }} c match_condition (p.departed >= c.since) on p.origin = c.origin
