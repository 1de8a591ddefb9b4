{# Pages of each airport and day, kept so by what is new in the log of pages. In dbt's own process alone, which the target `here` is. #}
{{ config(materialized='maintained', enabled=target.name == 'here',
          pre_hook="alter table {{ ref('pages_log') }} set tblproperties (delta.enableChangeDataFeed = true)") }}
select origin, date(departed) as day, count(*) as pages, max(delay_minutes) as worst
from {{ ref('pages_log') }} group by origin, date(departed)
