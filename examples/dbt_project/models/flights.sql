select make_timestamp_ntz(year, month, day, hour, minute, 0) as scheduled,
       make_timestamp_ntz(year, month, day, hour, minute, 0) + make_dt_interval(0, 0, dep_delay, 0) as departed,
       dep_delay as delay_minutes,
       concat_ws('-', carrier, flight, origin, lpad(month, 2, '0') || lpad(day, 2, '0')) as flight_id,
       carrier, tailnum, origin, dest
from {{ source('new_york', 'flights_csv') }}
where make_date(year, month, day) < date'{{ var("until") }}'
