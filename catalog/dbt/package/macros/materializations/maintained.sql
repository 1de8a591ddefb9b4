{#
  A Delta table that is kept equal to the model's query by streamtime.maintain: each run computes anew what changes of its tables touched.

      {{ config(materialized='maintained', key='id') }}

  key         columns of the result that tell its rows apart, where the query does not say so itself
  policy      auto (the default), incremental or full
  properties  table properties of the target, when it is made

  The tables that the model reads need a change feed, delta.enableChangeDataFeed = true. It runs in dbt's own process only: `type: streamtime`,
  `method: session`. A run with --full-refresh makes the table anew. What each run did is logged, and kept: streamtime.receipts(spark, table).
#}
{% materialization maintained, adapter='streamtime' %}
  {%- set existing = load_relation(this) -%}
  {{ run_hooks(pre_hooks) }}
  {%- if existing is not none and (existing.is_view or should_full_refresh()) -%}
    {#- What is there stays where the query is wrong -#}
    {%- set alone = this.incorporate(path={'identifier': this.identifier ~ '__dbt_tmp'}) -%}
    {%- do adapter.maintain(alone | string, compiled_code, config.get('key'), config.get('policy', 'auto'), {}, true) -%}
    {%- do adapter.drop_relation(existing) -%}
  {%- endif -%}
  {%- set said = adapter.maintain(this | string, compiled_code, config.get('key'), config.get('policy', 'auto'), config.get('properties', {})) -%}
  {%- do log(said, info=true) -%}
  {%- call noop_statement('main', said.partition('. ')[0]) -%} {{ compiled_code }} {%- endcall -%}
  {%- do persist_docs(this, model) -%}
  {{ run_hooks(post_hooks) }}
  {{ return({'relations': [this]}) }}
{% endmaterialization %}

{% materialization maintained, default %}
  {{ exceptions.raise_compiler_error("materialized='maintained' needs dbt's own process: `type: streamtime`, `method: session`. Elsewhere, use incremental") }}
{% endmaterialization %}
