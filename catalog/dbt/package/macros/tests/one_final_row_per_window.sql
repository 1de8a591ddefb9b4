{# Windows, and sessions, that have more than one row: a final answer is never corrected. `keys` may be left out; window_start may be none, where the end tells. #}
{% test one_final_row_per_window(model, keys=[], window_start='window_start', window_end='window_end') %}
  {%- set columns = ([keys] if keys is string else keys | list) + ([window_start] if window_start else []) + [window_end] -%}
  select {{ columns | join(', ') }}, count(*) as answers from {{ model }} group by {{ columns | join(', ') }} having count(*) > 1
{% endtest %}
