{# Rows that come too soon after an earlier one with the same keys: within an interval such as '10 minutes', or without one at all. #}
{% test no_duplicates_within(model, keys, time, within=none) %}
  {%- set keys = [keys] if keys is string else keys -%}
  select * from (
    select *, lag({{ time }}) over ({% if keys %}partition by {{ keys | join(', ') }} {% endif %}order by {{ time }}) as earlier from {{ model }}
    where {{ time }} is not null {%- for key in keys %} and {{ key }} is not null{% endfor %}
  ) as in_order
  where earlier is not null {%- if within %} and {{ time }} <= earlier + interval '{{ within }}'{% endif %}
{% endtest %}
