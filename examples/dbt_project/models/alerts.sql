{# A departure more than an hour late raises an alert. A day's alerts are there when the day is over. #}
select flight_id, origin, departed, delay_minutes from {{ ref('flights') }}
where delay_minutes > 60 and departed < timestamp_ntz'{{ var("until") }} 00:00:00'
