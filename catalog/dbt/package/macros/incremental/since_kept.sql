{#
  What an incremental model that keeps the first row of each key must look at: the rows that are later than all that were kept, and of each
  key the row that was kept last, since new rows are its duplicates. `only_new` then leaves out those that are there.

      select * from DEDUPLICATE(TABLE({{ streamtime.since_kept(ref('alerts'), keys=['origin'], time='departed', within='1 hour') }})
        PARTITION BY origin ORDER BY departed, within => INTERVAL 1 HOUR)
      {{ streamtime.only_new('departed') }}

  keys    columns, as in PARTITION BY
  time    the column of ORDER BY
  within  as in the call, '1 hour'; without it a key passes once for ever, and the kept row of every key is looked at

  The answer is that of one run over all rows if rows of a later run are later than those of the runs before.
#}
{% macro since_kept(relation, keys, time, within=none) %}
  {%- set keys = [keys] if keys is string else keys -%}
  {%- if not is_incremental() -%}
    select * from {{ relation }}
  {%- elif not execute -%}
    select * from {{ relation }}
  {%- else -%}
    {#- In the order of `this`, whatever columns came since; where it is not there yet, `streamtime dbt compile` asks -#}
    {%- set columns = adapter.get_columns_in_relation(this) | map(attribute='quoted') | join(', ') -%}
    select {{ columns or '*' }} from {{ relation }}
    where coalesce({{ time }} > (select max({{ time }}) from {{ this }}), true)
    union all
    select {{ columns or '* except (streamtime_newest)' }} from (
      select *, row_number() over (partition by {{ keys | join(', ') }} order by {{ time }} desc) as streamtime_newest from {{ this }}
      where {{ time }} is not null
      {%- if within %} and {{ time }} >= (select max({{ time }}) from {{ this }}) - interval '{{ within }}'{% endif %}
    ) where streamtime_newest = 1 {%- for key in keys %} and {{ key }} is not null{% endfor %}
  {%- endif -%}
{% endmacro %}
