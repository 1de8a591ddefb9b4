{# Behind a call over `since_kept`: without the rows that are there. #}
{% macro only_new(time) %}
  {%- if is_incremental() -%}
    where coalesce({{ time }} > (select max({{ time }}) from {{ this }}), true)
  {%- endif -%}
{% endmacro %}
