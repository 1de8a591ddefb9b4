{#
  A Delta table that the model's rows, which are changes, are merged into: the newest row of each key, or all of its versions.

      {{ config(materialized='apply_changes', keys='id', sequence_by='updated_at', deleted="op = 'D'") }}

  keys         columns that tell rows of the table apart; a change with a null there is left out
  sequence_by  columns that order the changes of a key; one only with scd=2; a change with a null there is left out
  deleted      a condition that marks deletions; by default `change_type`, or Delta's `_change_type`, is 'delete'
  scd          1 keeps one row for each key; 2 keeps versions, with valid_from and valid_to

  Changes may come in any order and more than once, as with streamtime.apply_changes, whose statements these are. Beside the table stands
  `<table>__deleted`. Columns that only the changes have are added. The first run, and one with --full-refresh, makes both tables anew.
#}
{% materialization apply_changes, default %}
  {%- set keys = streamtime.as_names(config.require('keys')) -%}
  {%- set sequence = streamtime.as_names(config.require('sequence_by')) -%}
  {%- set scd = config.get('scd', 1) | int -%}
  {%- if scd not in (1, 2) or (scd == 2 and sequence | length != 1) -%}
    {{ exceptions.raise_compiler_error("apply_changes: expected scd=1, or scd=2 with one column in sequence_by, which gives valid_from") }}
  {%- endif -%}
  {%- set existing = load_relation(this) -%}
  {%- set rows = this.incorporate(path={'identifier': this.identifier ~ '__dbt_tmp'}).include(database=false, schema=false) -%}
  {%- set deletions = this.incorporate(path={'identifier': this.identifier ~ '__deleted'}) -%}

  {{ run_hooks(pre_hooks) }}

  {%- call statement('rows') -%} {{ create_table_as(True, rows, compiled_code) }} {%- endcall -%}
  {%- set types, said, marks = {}, {}, ['_change_type', '_commit_version', '_commit_timestamp'] -%}
  {%- set described = [] -%}
  {%- for row in run_query('describe table ' ~ rows).rows if row[0] and not row[0].startswith('#') -%}
    {%- do described.append(row) -%}
    {%- do said.update({row[0] | lower: row[1]}) -%}
  {%- endfor -%}
  {#- One of these names alone is a column of theirs, but for the one that marks deletions -#}
  {%- set kind = 'change_type' if said.get('change_type') == 'string' else '_change_type' if said.get('_change_type') == 'string' -%}
  {%- if 'change_type' in said and 'change_time' in said and 'change_seq' in said -%}
    {%- do marks.extend(['change_type', 'change_time', 'change_seq']) -%}
  {%- elif kind and not config.get('deleted') -%} {%- do marks.append(kind) -%}
  {%- endif -%}
  {%- for row in described if (row[0] | lower) not in marks or ('`' ~ row[0] ~ '`') in keys + sequence -%}
    {%- do types.update({'`' ~ row[0] ~ '`': row[1]}) -%}
  {%- endfor -%}
  {%- for name in keys + sequence if name not in types -%}
    {{ exceptions.raise_compiler_error('apply_changes: no column ' ~ name ~ ' in the changes. They have ' ~ types.keys() | join(', ')) }}
  {%- endfor -%}
  {%- set columns = types.keys() | list -%}
  {#- Files of Delta cannot have such names -#}
  {%- set mapped = "tblproperties ('delta.columnMapping.mode' = 'name')" if modules.re.search('[ ,;{}()\n\t=]', columns | join('')) else '' -%}
  {%- set ties = [] -%}
  {%- for name in columns if name not in keys + sequence and not ('map<' in types[name] or 'variant' in types[name]) -%}
    {%- do ties.append(name) -%}
  {%- endfor -%}
  {%- set deleted = '(' ~ config.get('deleted') ~ ')' if config.get('deleted') else '`' ~ kind ~ "` = 'delete'" if kind else 'false' -%}
  {%- set skipped = "`_change_type` = 'update_preimage'" if '_change_type' in said else 'false' -%}

  {%- if existing is none or existing.is_view or should_full_refresh() -%}
    {%- if existing is not none and existing.is_view -%} {%- do adapter.drop_relation(existing) -%} {%- endif -%}
    {%- call statement('table') -%}
      create or replace table {{ this }} using delta {{ mapped }} as select {{ columns | join(', ') }}
      {%- if scd == 2 %}, {{ sequence[0] }} as valid_from, {{ sequence[0] }} as valid_to{% endif %} from {{ rows }} where false
    {%- endcall -%}
    {%- call statement('deletions') -%}
      create or replace table {{ deletions }} using delta {{ mapped }} as select {{ (keys + sequence) | join(', ') }} from {{ rows }} where false
    {%- endcall -%}
  {%- else -%}
    {%- set there = {} -%}
    {%- for column in adapter.get_columns_in_relation(this) -%} {%- do there.update({column.name | lower: column.dtype | lower}) -%} {%- endfor -%}
    {%- set history = 'valid_from' in there and 'valid_to' in there and '`valid_from`' not in columns -%}
    {%- if scd == 1 and history -%}
      {{ exceptions.raise_compiler_error('apply_changes: ' ~ this ~ ' keeps history, and scd=1 has one row for a key. Use scd=2, or --full-refresh.') }}
    {%- elif scd == 2 and not history -%}
      {{ exceptions.raise_compiler_error('apply_changes: ' ~ this ~ ' has no valid_from and valid_to, so it keeps no history. Use scd=1, or --full-refresh.') }}
    {%- endif -%}
    {%- for name in keys + sequence if (name[1:-1] | lower) not in there -%}
      {{ exceptions.raise_compiler_error('apply_changes: ' ~ this ~ ' has no column ' ~ name ~ '. It must have keys and sequence_by.') }}
    {%- endfor -%}
    {%- for name in columns -%}
      {%- set stored = there.get(name[1:-1] | lower) -%}
      {%- if stored is none -%}
        {%- call statement('column') -%} alter table {{ this }} add columns ({{ name }} {{ types[name] }}) {%- endcall -%}
      {%- elif stored in ('tinyint', 'smallint', 'int', 'bigint')
          and (types[name] in ('float', 'double') or (types[name].startswith('decimal') and not types[name].endswith(',0)'))) -%}
        {{ exceptions.raise_compiler_error('apply_changes: the model has ' ~ name ~ ' as ' ~ types[name] ~ ', and ' ~ this ~ ' as ' ~ stored
           ~ ', which would cut fractions off. Cast it, or use --full-refresh.') }}
      {%- endif -%}
    {%- endfor -%}
    {#- A first run that was killed, or a table that another materialization made, has none -#}
    {%- call statement('deletions') -%}
      create table if not exists {{ deletions }} using delta {{ mapped }} as select {{ (keys + sequence) | join(', ') }} from {{ this }} where false
    {%- endcall -%}
  {%- endif -%}
  {%- call statement('remember') -%}
    {{ streamtime.streamtime_remember_deletions(deletions, rows, columns, keys, sequence, deleted, skipped, scd) }}
  {%- endcall -%}
  {%- call statement('main') -%}
    {%- if scd == 1 -%}
      {{ streamtime.streamtime_apply_newest(this, deletions, rows, columns, keys, sequence, ties, deleted, skipped) }}
    {%- else -%}
      {{ streamtime.streamtime_apply_history(this, deletions, rows, columns, keys, sequence, ties, deleted, skipped) }}
    {%- endif -%}
  {%- endcall -%}
  {%- call statement('done') -%} drop view if exists {{ rows }} {%- endcall -%}

  {%- do persist_docs(this, model) -%}
  {{ run_hooks(post_hooks) }}
  {{ return({'relations': [this]}) }}
{% endmaterialization %}

{# A name, or a list of them, in backquotes. #}
{% macro as_names(names) %}
  {%- set quoted = [] -%}
  {%- for name in ([names] if names is string else names) -%} {%- do quoted.append(name if name.startswith('`') else '`' ~ name ~ '`') -%} {%- endfor -%}
  {{ return(quoted) }}
{% endmacro %}
