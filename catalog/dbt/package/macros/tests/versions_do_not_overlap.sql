{# Versions that do not end before the key's next one begins, or end before they begin. The last one of a key may be open. #}
{% test versions_do_not_overlap(model, keys, valid_from='valid_from', valid_to='valid_to') %}
  {%- set keys = [keys] if keys is string else keys -%}
  select * from (
    select *, lead({{ valid_from }}) over ({% if keys %}partition by {{ keys | join(', ') }} {% endif %}order by {{ valid_from }}, {{ valid_to }} nulls last) as next_from
    from {{ model }}
  ) as in_order
  where {{ valid_from }} is null or {{ valid_to }} <= {{ valid_from }} or next_from < {{ valid_to }}
     or (next_from is not null and {{ valid_to }} is null)
{% endtest %}
