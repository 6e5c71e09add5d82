//! Conversion of Arrow arrays to typed rows of a chunk: the allowed types of columns.
//!
//! Parquet files are decoded to such arrays, and frames in memory consist of them.

use std::{borrow::Cow, fmt::Display};

use arrow_array::{
    Array, ArrowPrimitiveType, PrimitiveArray,
    cast::AsArray,
    types::{
        ArrowTimestampType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type,
        Decimal256Type, DecimalType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type,
        Int32Type, Int64Type, Time32MillisecondType, Time32SecondType, Time64MicrosecondType,
        Time64NanosecondType, TimestampMicrosecondType, TimestampMillisecondType,
        TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type,
        UInt64Type,
    },
};
use arrow_schema::{DataType, Fields, TimeUnit};

use crate::{
    chunk::{Chunk, Tickers, checked, shown},
    date::{Date, clock_nanos},
    header::{ColumnUse, FileHeader},
    load_error::{ColumnRole, NumberProblem, PanelLoadError, TimeProblem},
    moment::{Moment, TimeRules},
    options::PanelOptions,
    zone::Zone,
};

const DAY_SECONDS: i64 = 86_400;
const DAY_MILLIS: i64 = DAY_SECONDS * 1000;
const SECOND_NANOS: i128 = 1_000_000_000;
const DAY_NANOS: i64 = DAY_SECONDS * 1_000_000_000;

impl ColumnUse {
    /// Returns the role that decides which types the cells may have; `None` for a column that is
    /// not read.
    fn role(self) -> Option<ColumnRole> {
        match self {
            Self::Date => Some(ColumnRole::Date),
            Self::Clock => Some(ColumnRole::Clock),
            Self::Timestamp => Some(ColumnRole::Timestamp),
            Self::Ticker => Some(ColumnRole::Ticker),
            Self::Value(_) => Some(ColumnRole::Number),
            Self::Ignored => None,
        }
    }
}

/// A column that is read.
#[derive(Debug)]
pub(crate) struct ArrowColumn {
    /// Position in the Arrow schema.
    pub(crate) at: usize,
    what: ColumnUse,
    /// Time zone of its timestamps, or UTC.
    zone: Zone,
    /// Whether its timestamps have a zone, so that they are instants.
    zoned: bool,
    rules: TimeRules,
}

impl ArrowColumn {
    /// Returns the columns of a table that are read, after checking that their types fit their
    /// roles. `plain` returns the type that the cells of a field arrive as.
    pub(crate) fn of(
        header: &FileHeader,
        options: &PanelOptions,
        fields: &Fields,
        plain: impl Fn(&DataType) -> DataType,
    ) -> Result<Vec<Self>, PanelLoadError> {
        let fields = header.uses.iter().zip(fields).enumerate();
        fields
            .filter_map(|(at, (&what, field))| Some((at, what, what.role()?, field)))
            .map(|(at, what, role, field)| {
                let value_type = plain(field.data_type());
                Self::new(at, what, role, field.name(), &value_type)?.with(
                    &header.times,
                    options,
                    field.name(),
                    &value_type,
                )
            })
            .collect()
    }

    fn new(
        at: usize,
        what: ColumnUse,
        role: ColumnRole,
        name: &str,
        value_type: &DataType,
    ) -> Result<Self, PanelLoadError> {
        if !fits(value_type, role) {
            let (column, found) = (name.to_owned(), described(value_type));
            return Err(PanelLoadError::ColumnType { column, found, role });
        }
        let zone = match value_type {
            DataType::Timestamp(_, zone) => Zone::of(zone.as_deref()).ok_or_else(|| {
                let zone = zone.as_deref().unwrap_or_default().to_owned();
                PanelLoadError::UnknownZone { column: name.to_owned(), zone }
            })?,
            _ => Zone::Fixed(0),
        };
        let zoned = matches!(value_type, DataType::Timestamp(_, Some(_)));
        Ok(Self { at, what, zone, zoned, rules: TimeRules::default() })
    }

    /// Takes the rules of a column of days or instants, after checking that they apply to its type.
    fn with(
        mut self,
        rules: &TimeRules,
        options: &PanelOptions,
        name: &str,
        value_type: &DataType,
    ) -> Result<Self, PanelLoadError> {
        if !matches!(self.what, ColumnUse::Date | ColumnUse::Timestamp) {
            return Ok(self);
        }
        let column = || name.to_owned();
        let counts = value_type.is_integer() || *value_type == DataType::Utf8;
        if rules.unit.is_some() && !counts {
            return Err(PanelLoadError::UnusedOption { option: "unit", column: column() });
        }
        if self.what == ColumnUse::Timestamp {
            if value_type.is_integer() && rules.unit.is_none() {
                return Err(PanelLoadError::NoUnit { column: column() });
            }
            if let DataType::Timestamp(_, own) = value_type {
                match (own, &options.zone) {
                    (None, None) => return Err(PanelLoadError::NoZone { column: column() }),
                    (Some(own), Some(zone)) => {
                        let (own, zone) = (own.to_string(), zone.clone());
                        return Err(PanelLoadError::TwoZones { column: column(), own, zone });
                    }
                    _ => {}
                }
            }
        }
        self.rules = rules.clone();
        Ok(self)
    }

    /// Appends the cells of an array. Returns `false` if its type is not the checked one.
    pub(crate) fn push(
        &self,
        array: &dyn Array,
        chunk: &mut Chunk,
        tickers: &mut Tickers<'_>,
    ) -> bool {
        match self.what {
            ColumnUse::Date => self.push_dates(array, chunk),
            ColumnUse::Clock => self.push_clocks(array, chunk),
            ColumnUse::Timestamp => self.push_instants(array, chunk),
            ColumnUse::Ticker => self.push_tickers(array, chunk, tickers),
            ColumnUse::Value(value) => self.push_numbers(array, value, chunk),
            ColumnUse::Ignored => true,
        }
    }

    fn push_dates(&self, array: &dyn Array, chunk: &mut Chunk) -> bool {
        if let Some(texts) = texts(array) {
            for text in texts {
                let day = text.and_then(|text| self.rules.day_of(text.trim()));
                chunk.push_day(self.at, day, || shown(text.unwrap_or("null")));
            }
            return true;
        }
        if let Some(numbers) = integers(array) {
            for number in numbers {
                let day = number.and_then(|number| match self.rules.unit {
                    Some(unit) => Moment::from_epoch(number, unit.nanos()).ok(),
                    None => Date::from_number(u32::try_from(number).ok()?).map(Moment::of_day),
                });
                chunk.push_day(self.at, day, || cell_text(number.as_ref()));
            }
            return true;
        }
        let Some(seconds) = seconds(array) else { return false };
        for second in seconds {
            let local = second.and_then(|second| self.zone.local(second));
            let day = local.and_then(|local| Moment::from_micros(local.checked_mul(1_000_000)?));
            chunk.push_day(self.at, day, || {
                cell_text(second.map(|second| format!("{second} s after 1970-01-01")).as_ref())
            });
        }
        true
    }

    fn push_clocks(&self, array: &dyn Array, chunk: &mut Chunk) -> bool {
        if let Some(texts) = texts(array) {
            for text in texts {
                let nanos = text.and_then(|text| clock_nanos(text.trim()));
                chunk.push_clock(self.at, nanos, || shown(text.unwrap_or("null")));
            }
            return true;
        }
        let Some(clocks) = clocks(array) else { return false };
        for nanos in clocks {
            let nanos = nanos.filter(|nanos| (0..DAY_NANOS).contains(nanos));
            chunk.push_clock(self.at, nanos, || cell_text(nanos.as_ref()));
        }
        true
    }

    fn push_instants(&self, array: &dyn Array, chunk: &mut Chunk) -> bool {
        if let Some(texts) = texts(array) {
            for text in texts {
                let time = text.ok_or(TimeProblem::NotATime);
                let time = time.and_then(|text| self.rules.instant_of(text.trim()));
                chunk.push_time(self.at, time, || shown(text.unwrap_or("null")));
            }
            return true;
        }
        if let (Some(numbers), Some(unit)) = (integers(array), self.rules.unit) {
            for number in numbers {
                let time = number.ok_or(TimeProblem::NotANumber);
                let time = time.and_then(|number| Moment::from_epoch(number, unit.nanos()));
                chunk.push_time(self.at, time, || cell_text(number.as_ref()));
            }
            return true;
        }
        let Some((stamps, unit_nanos)) = stamps(array) else { return false };
        for stamp in stamps {
            let time = stamp.ok_or(TimeProblem::NotATime).and_then(|stamp| {
                let moment = Moment::from_epoch(stamp.into(), unit_nanos)?;
                if self.zoned { Ok(moment) } else { self.rules.local_instant(moment.micros()) }
            });
            chunk.push_time(self.at, time, || {
                let known =
                    stamp.and_then(|stamp| Moment::from_epoch(stamp.into(), unit_nanos).ok());
                let text = known.map(|moment| moment.to_string());
                match (text, stamp) {
                    (Some(text), _) if self.zoned => text.into(),
                    (Some(text), _) => text.trim_end_matches('Z').to_owned().into(),
                    (None, stamp) => cell_text(stamp.as_ref()),
                }
            });
        }
        true
    }

    fn push_tickers(
        &self,
        array: &dyn Array,
        chunk: &mut Chunk,
        tickers: &mut Tickers<'_>,
    ) -> bool {
        if let Some(texts) = texts(array) {
            for text in texts {
                chunk.push_ticker(self.at, text.unwrap_or_default().trim(), tickers);
            }
            return true;
        }
        let Some(numbers) = integers(array) else { return false };
        for number in numbers {
            let text = number.map_or_else(String::new, |number| number.to_string());
            chunk.push_ticker(self.at, &text, tickers);
        }
        true
    }

    fn push_numbers(&self, array: &dyn Array, value: usize, chunk: &mut Chunk) -> bool {
        let Some(numbers) = floats(array).or_else(|| decimals(array)) else { return false };
        for number in numbers {
            let cell = number.ok_or(NumberProblem::Missing).and_then(checked);
            chunk.push_number(self.at, value, cell, || match number {
                Some(number) => Cow::Owned(number.to_string()),
                None => Cow::Borrowed("null"),
            });
        }
        true
    }
}

/// Returns the type of the cells of a column in memory: no dictionaries, and one kind of text.
pub(crate) fn cell_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Dictionary(_, value) => cell_type(value),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => DataType::Utf8,
        other => other.clone(),
    }
}

fn fits(data_type: &DataType, role: ColumnRole) -> bool {
    use DataType as T;
    let number = data_type.is_floating()
        || matches!(
            data_type,
            T::Decimal32(..) | T::Decimal64(..) | T::Decimal128(..) | T::Decimal256(..)
        );
    let day = matches!(data_type, T::Date32 | T::Date64 | T::Timestamp(..));
    let instant = matches!(data_type, T::Timestamp(..));
    let clock = matches!(data_type, T::Time32(_) | T::Time64(_));
    match role {
        ColumnRole::Date => day || data_type.is_integer() || *data_type == T::Utf8,
        ColumnRole::Timestamp => instant || data_type.is_integer() || *data_type == T::Utf8,
        ColumnRole::Clock => clock || *data_type == T::Utf8,
        ColumnRole::Ticker => data_type.is_integer() || *data_type == T::Utf8,
        ColumnRole::Number => number || data_type.is_integer(),
    }
}

/// Returns a type in words, or else its Arrow name.
fn described(data_type: &DataType) -> String {
    use DataType as T;
    match data_type {
        T::Boolean => "booleans".to_owned(),
        T::Utf8 => "text".to_owned(),
        T::Null => "nothing but nulls".to_owned(),
        T::Date32 | T::Date64 => "dates".to_owned(),
        T::Timestamp(..) => "timestamps".to_owned(),
        T::Time32(_) | T::Time64(_) => "times of day".to_owned(),
        T::Duration(_) | T::Interval(_) => "durations".to_owned(),
        T::Float16 | T::Float32 | T::Float64 => "floats".to_owned(),
        T::Struct(_) | T::List(_) | T::LargeList(_) | T::FixedSizeList(..) | T::Map(..) => {
            "nested values".to_owned()
        }
        T::Binary | T::LargeBinary | T::BinaryView | T::FixedSizeBinary(_) => "bytes".to_owned(),
        other => shown(&other.to_string()).into_owned(),
    }
}

/// Returns the texts of an array of any kind of text; `None` for other arrays.
fn texts(array: &dyn Array) -> Option<Box<dyn Iterator<Item = Option<&str>> + '_>> {
    if let Some(texts) = array.as_string_opt::<i32>() {
        return Some(Box::new(texts.iter()));
    }
    if let Some(texts) = array.as_string_opt::<i64>() {
        return Some(Box::new(texts.iter()));
    }
    Some(Box::new(array.as_string_view_opt()?.iter()))
}

type ColumnCells<'a, T> = Box<dyn Iterator<Item = Option<T>> + 'a>;

fn integers(array: &dyn Array) -> Option<ColumnCells<'_, i128>> {
    fn of<T: ArrowPrimitiveType<Native: Into<i128>>>(
        array: &dyn Array,
    ) -> Option<ColumnCells<'_, i128>> {
        Some(cells(array.as_primitive_opt::<T>()?, Into::into))
    }
    of::<Int64Type>(array)
        .or_else(|| of::<Int32Type>(array))
        .or_else(|| of::<Int16Type>(array))
        .or_else(|| of::<Int8Type>(array))
        .or_else(|| of::<UInt64Type>(array))
        .or_else(|| of::<UInt32Type>(array))
        .or_else(|| of::<UInt16Type>(array))
        .or_else(|| of::<UInt8Type>(array))
}

/// Converts integers and floats by casts, which round to the nearest float; `None` for other
/// arrays.
#[expect(clippy::cast_precision_loss, reason = "a panel's numbers are 64-bit floats")]
fn floats(array: &dyn Array) -> Option<ColumnCells<'_, f64>> {
    if let Some(numbers) = array.as_primitive_opt::<Float64Type>() {
        return Some(cells(numbers, |number| number));
    }
    if let Some(numbers) = array.as_primitive_opt::<Float32Type>() {
        return Some(cells(numbers, f64::from));
    }
    if let Some(numbers) = array.as_primitive_opt::<Float16Type>() {
        return Some(cells(numbers, f64::from));
    }
    let numbers = integers(array)?;
    Some(Box::new(numbers.map(|number| number.map(|number| number as f64))))
}

/// Converts decimals through text, which rounds once; `None` for other arrays.
fn decimals(array: &dyn Array) -> Option<ColumnCells<'_, f64>> {
    fn of<T: DecimalType>(array: &dyn Array) -> Option<ColumnCells<'_, f64>> {
        let numbers = array.as_primitive_opt::<T>()?;
        let (DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale)) = *array.data_type()
        else {
            return None;
        };
        Some(cells(numbers, move |number| {
            T::format_decimal(number, precision, scale).parse().unwrap_or(f64::NAN)
        }))
    }
    of::<Decimal128Type>(array)
        .or_else(|| of::<Decimal64Type>(array))
        .or_else(|| of::<Decimal32Type>(array))
        .or_else(|| of::<Decimal256Type>(array))
}

/// Converts dates and timestamps to seconds since 1970 in UTC, rounded down; `None` for other
/// arrays.
fn seconds(array: &dyn Array) -> Option<ColumnCells<'_, i64>> {
    if let Some(days) = array.as_primitive_opt::<Date32Type>() {
        return Some(cells(days, |day| i64::from(day) * DAY_SECONDS));
    }
    if let Some(millis) = array.as_primitive_opt::<Date64Type>() {
        return Some(cells(millis, |millis| millis.div_euclid(DAY_MILLIS) * DAY_SECONDS));
    }
    let (stamps, unit_nanos) = stamps(array)?;
    let per_second = i64::try_from(SECOND_NANOS / unit_nanos).ok()?;
    Some(Box::new(stamps.map(move |stamp| stamp.map(|stamp| stamp.div_euclid(per_second)))))
}

/// Returns timestamps and the nanoseconds of their unit; `None` for other arrays.
fn stamps(array: &dyn Array) -> Option<(ColumnCells<'_, i64>, i128)> {
    fn of<T: ArrowTimestampType>(array: &dyn Array) -> Option<(ColumnCells<'_, i64>, i128)> {
        let unit_nanos = match T::UNIT {
            TimeUnit::Second => SECOND_NANOS,
            TimeUnit::Millisecond => 1_000_000,
            TimeUnit::Microsecond => 1_000,
            TimeUnit::Nanosecond => 1,
        };
        Some((cells(array.as_primitive_opt::<T>()?, |stamp: i64| stamp), unit_nanos))
    }
    of::<TimestampNanosecondType>(array)
        .or_else(|| of::<TimestampMicrosecondType>(array))
        .or_else(|| of::<TimestampMillisecondType>(array))
        .or_else(|| of::<TimestampSecondType>(array))
}

/// Converts times of day to nanoseconds since midnight; `None` for other arrays.
fn clocks(array: &dyn Array) -> Option<ColumnCells<'_, i64>> {
    if let Some(seconds) = array.as_primitive_opt::<Time32SecondType>() {
        return Some(cells(seconds, |seconds| i64::from(seconds) * 1_000_000_000));
    }
    if let Some(millis) = array.as_primitive_opt::<Time32MillisecondType>() {
        return Some(cells(millis, |millis| i64::from(millis) * 1_000_000));
    }
    if let Some(micros) = array.as_primitive_opt::<Time64MicrosecondType>() {
        return Some(cells(micros, |micros| micros.saturating_mul(1_000)));
    }
    Some(cells(array.as_primitive_opt::<Time64NanosecondType>()?, |nanos| nanos))
}

/// Returns the text of a cell for an error message.
fn cell_text(cell: Option<&impl Display>) -> Cow<'static, str> {
    cell.map_or(Cow::Borrowed("null"), |cell| Cow::Owned(cell.to_string()))
}

fn cells<'a, T, R>(
    array: &'a PrimitiveArray<T>,
    convert: impl Fn(T::Native) -> R + 'a,
) -> ColumnCells<'a, R>
where
    T: ArrowPrimitiveType,
{
    Box::new(array.iter().map(move |cell| cell.map(&convert)))
}
