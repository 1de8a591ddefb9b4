{# The same pages, a run at a time: `since_kept` adds what earlier runs kept, so that a page holds back what comes after it in a later run. #}
{{ config(materialized='incremental', incremental_strategy='append') }}
select * from DEDUPLICATE(
  TABLE({{ streamtime.since_kept(ref('alerts'), keys='origin', time='departed', within='1 hour') }})
  PARTITION BY origin ORDER BY departed, within => INTERVAL 1 HOUR)
{{ streamtime.only_new('departed') }}
