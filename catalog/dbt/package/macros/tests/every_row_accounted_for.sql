{#
  Rows that were lost, or came from nowhere: what went in is what came out and what was dropped, each row as often.

      - streamtime.every_row_accounted_for:
          arguments: {of: ref('alerts'), dropped: [ref('held_back')], columns: [flight_id, departed]}

  of       the input
  dropped  one relation, or several: the same call with output => 'dropped'
  columns  what tells rows apart
#}
{% test every_row_accounted_for(model, of, columns, dropped=[]) %}
  {%- set columns = ([columns] if columns is string else columns) | join(', ') -%}
  {%- set dropped = dropped if dropped is sequence and dropped is not string and dropped is not mapping else [dropped] -%}
  with rows_in as (select {{ columns }} from {{ of }}),
  rows_out as (
    select {{ columns }} from {{ model }}
    {%- for relation in dropped %}
    union all select {{ columns }} from {{ relation }}
    {%- endfor %}
  )
  select 'lost' as became, * from (select * from rows_in except all select * from rows_out) as lost
  union all
  select 'from nowhere', * from (select * from rows_out except all select * from rows_in) as made
{% endtest %}
