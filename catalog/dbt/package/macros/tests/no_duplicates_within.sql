{#
  Rows that come too soon after an earlier one with the same keys: within an interval such as '10 minutes', or without one at all.
  A day has 24 hours: Spark adds one to a TIMESTAMP by the clocks of the session, so such times are compared by the clock of UTC.
#}
{% test no_duplicates_within(model, keys, time, within=none) %}
  {%- set keys = [keys] if keys is string else keys -%}
  {%- set by_utc = "if(typeof(%s) = 'timestamp', timestamp_ntz '1970-01-01' + unix_micros(cast(%s as timestamp_ltz)) * interval '0.000001' second,"
                   ~ " cast(%s as timestamp_ntz))" -%}
  select * from (
    select *, lag({{ time }}) over ({% if keys %}partition by {{ keys | join(', ') }} {% endif %}order by {{ time }}) as earlier from {{ model }}
    where {{ time }} is not null {%- for key in keys %} and {{ key }} is not null{% endfor %}
  ) as in_order
  where earlier is not null
  {%- if within %} and {{ by_utc | format(time, time, time) }}
    <= {{ by_utc | format('earlier', 'earlier', 'earlier') }} + interval '{{ within }}'{% endif %}
{% endtest %}
