{{ config(materialized='table') }}
select * from WINDOW_UPDATES(
  TABLE(select * from {{ ref('flights') }} where departed is not null) PARTITION BY origin ORDER BY departed,
  size => INTERVAL 1 HOUR, aggregates => 'count(*) AS departures, max(delay_minutes) AS worst', emit => 'final')
