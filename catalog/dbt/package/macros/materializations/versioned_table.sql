{#
  A Delta table that declares its versions (docs/versioned.md), to which each run puts the rows of the model.

      {{ config(materialized='versioned_table', key='product', time='ts', grace='1 day', retention='90 days', deleted='_deleted') }}

  key, time        as the properties streamtime.key and streamtime.time: a column or several, and the event time
  grace            a row that is older than the table's newest by more than this is not put; how many new ones is logged
  retention        how far back lookups are answered
  deleted          the BOOLEAN column that marks tombstones

  A row with the key and the time of one that is there replaces it. Of several in one run the last one stays, in the order of all columns.
  A row without a key or a time is not put. The first run, and one with --full-refresh, makes the table anew. Later runs add columns that
  only the model has, and change grace, retention and deleted to what the model says; another key or time is an error.
#}
{% materialization versioned_table, default %}
  {%- set key = config.require('key') -%}
  {%- set keys = [key] if key is string else key -%}
  {%- set time = config.require('time') -%}
  {%- set grace = config.get('grace') -%}
  {%- set settings = {'grace': grace, 'retention': config.get('retention'), 'deleted': config.get('deleted')} -%}
  {%- set existing = load_relation(this) -%}
  {%- set rows = this.incorporate(path={'identifier': this.identifier ~ '__dbt_tmp'}).include(database=false, schema=false) -%}
  {%- set anew = existing is none or existing.is_view or should_full_refresh() -%}

  {{ run_hooks(pre_hooks) }}

  {%- call statement('rows') -%} {{ create_table_as(True, rows, compiled_code) }} {%- endcall -%}
  {%- do streamtime.time_is_a_time(rows, time) -%}
  {%- if anew -%}
    {%- if existing is not none and existing.is_view -%} {%- do adapter.drop_relation(existing) -%} {%- endif -%}
    {%- call statement('main') -%}
      create or replace table {{ this }} using delta tblproperties (
        'streamtime.key' = {{ streamtime.as_literal(keys | join(', ')) }}, 'streamtime.time' = {{ streamtime.as_literal(time) }}
        {%- for name, value in settings.items() if value %}, 'streamtime.{{ name }}' = {{ streamtime.as_literal(value) }}{% endfor %}
      ) as {{ streamtime.last_of_each(rows, keys, time) }}
    {%- endcall -%}
  {%- else -%}
    {%- do streamtime.declare_again(this, keys, time, settings) -%}
    {%- do streamtime.add_columns(this, rows) -%}
    {%- if grace -%}
      {%- call statement('late', fetch_result=true) -%}
        select count(*) from {{ rows }} as s left anti join {{ this }} as t
          on {% for column in keys + [time] %}t.{{ column }} = s.{{ column }}{{ ' and ' if not loop.last }}{% endfor %}
        where s.{{ time }} < (select max({{ time }}) from {{ this }}) - interval '{{ grace }}'
      {%- endcall -%}
      {%- set late = load_result('late')['data'][0][0] -%}
      {%- if late -%}
        {%- do log(this ~ ': ' ~ late ~ ' rows are new, but older than the grace of ' ~ grace ~ ', and were not put', info=true) -%}
      {%- endif -%}
    {%- endif -%}
    {%- call statement('main') -%}
      merge into {{ this }} as t using (
        {{ streamtime.last_of_each(rows, keys, time, grace) }}
      ) as s on {% for column in keys + [time] %}t.{{ column }} = s.{{ column }}{{ ' and ' if not loop.last }}{% endfor %}
      when matched then update set * when not matched then insert *
    {%- endcall -%}
  {%- endif -%}
  {%- call statement('done') -%} drop view if exists {{ rows }} {%- endcall -%}

  {%- do persist_docs(this, model) -%}
  {{ run_hooks(post_hooks) }}
  {{ return({'relations': [this]}) }}
{% endmaterialization %}

{# An error where the column cannot be asked AS OF: a table that declares it is asked first when it has rows. #}
{% macro time_is_a_time(rows, time) %}
  {%- for row in run_query('describe table ' ~ rows).rows if (row[0] or '') | lower == time | trim('`') | replace('``', '`') | lower -%}
    {%- if row[1] not in ('timestamp', 'timestamp_ntz', 'date') -%}
      {%- set seed = ' A seed gets its types in dbt_project.yml, seeds: {+column_types: {' ~ row[0] ~ ': timestamp}}; then build with --full-refresh.' -%}
      {{ exceptions.raise_compiler_error(
        "versioned_table, `time`: expected a column of TIMESTAMP, TIMESTAMP_NTZ or DATE, got " ~ row[1] | upper ~ " (`" ~ row[0] ~ "`). CAST it."
        ~ (seed if row[1].startswith('string') else '')) }}
    {%- endif -%}
  {%- endfor -%}
{% endmacro %}

{# A string as SQL has it. #}
{% macro as_literal(text) -%} '{{ text | string | replace('\\', '\\\\') | replace("'", "\\'") }}' {%- endmacro %}

{# The columns that only the model has. #}
{% macro add_columns(relation, rows) %}
  {%- set there = [] -%}
  {%- for column in adapter.get_columns_in_relation(relation) -%} {%- do there.append(column.name | lower) -%} {%- endfor -%}
  {%- for row in run_query('describe table ' ~ rows).rows if row[0] and not row[0].startswith('#') and (row[0] | lower) not in there -%}
    {%- call statement('column') -%} alter table {{ relation }} add columns (`{{ row[0] | replace('`', '``') }}` {{ row[1] }}) {%- endcall -%}
  {%- endfor -%}
{% endmacro %}

{# What a table that is there declares becomes what the model says. An error where that would make other versions of its rows. #}
{% macro declare_again(relation, keys, time, settings) %}
  {%- set there = {} -%}
  {%- for row in run_query('show tblproperties ' ~ relation).rows -%} {%- do there.update({row[0]: row[1]}) -%} {%- endfor -%}
  {%- for name, wanted in {'key': keys | join(', '), 'time': time}.items() -%}
    {%- set declared = there.get('streamtime.' ~ name, '') -%}
    {%- if declared | lower | replace('`', '') | replace(' ', '') != wanted | lower | replace('`', '') | replace(' ', '')
        and 'redacted' not in declared -%}  {#- as Spark shows a value with a word such as token in it -#}
      {{ exceptions.raise_compiler_error('versioned_table, `' ~ name ~ '`: the model says ' ~ wanted ~ ', and ' ~ relation ~ ' declares '
         ~ (declared or 'none') ~ '. Change it back, or use --full-refresh.') }}
    {%- endif -%}
  {%- endfor -%}
  {%- for name, wanted in settings.items() -%}
    {%- set declared = there.get('streamtime.' ~ name, '') -%}
    {%- if wanted and declared != wanted | string -%}
      {%- call statement('set') -%} alter table {{ relation }} set tblproperties ('streamtime.{{ name }}' = {{ streamtime.as_literal(wanted) }}) {%- endcall -%}
    {%- elif declared and not wanted -%}
      {%- call statement('unset') -%} alter table {{ relation }} unset tblproperties if exists ('streamtime.{{ name }}') {%- endcall -%}
    {%- endif -%}
  {%- endfor -%}
{% endmacro %}

{# The rows that can be put: one for each key and time; with a grace, those that are not too late for the table. #}
{% macro last_of_each(rows, keys, time, grace=none) %}
  {%- set order = [] -%}
  {%- set columns = [] -%}
  {%- for row in run_query('describe table ' ~ rows).rows if row[0] and not row[0].startswith('#') -%}
    {%- do columns.append('`' ~ row[0] | replace('`', '``') ~ '`') -%}
    {%- if not ('map<' in row[1] or 'variant' in row[1]) -%} {%- do order.append('`' ~ row[0] | replace('`', '``') ~ '` desc nulls last') -%} {%- endif -%}
  {%- endfor -%}
  select {{ columns | join(', ') }} from (
    select *, row_number() over (partition by {{ (keys + [time]) | join(', ') }} order by {{ order | join(', ') }}) as streamtime_last from {{ rows }}
  )
  {#- A join, since the source of Delta's MERGE may have no subquery over its target -#}
  {%- if grace %} cross join (select max({{ time }}) as streamtime_newest from {{ this }}){% endif %}
  where streamtime_last = 1 {%- for column in keys + [time] %} and {{ column }} is not null{% endfor %}
  {%- if grace %} and coalesce({{ time }} >= streamtime_newest - interval '{{ grace }}', true){% endif %}
{% endmacro %}
