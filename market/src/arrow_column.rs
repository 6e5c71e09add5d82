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
        Int32Type, Int64Type, TimestampMicrosecondType, TimestampMillisecondType,
        TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type,
        UInt64Type,
    },
};
use arrow_schema::{DataType, Fields, TimeUnit};

use crate::{
    chunk::{Chunk, Tickers, checked, shown},
    date::Date,
    header::{ColumnUse, FileHeader},
    load_error::{ColumnRole, NumberProblem, PanelLoadError},
    zone::Zone,
};

const DAY_SECONDS: i64 = 86_400;
const DAY_MILLIS: i64 = DAY_SECONDS * 1000;

impl ColumnUse {
    /// Returns the role that decides which types the cells may have; `None` for a column that is
    /// not read.
    fn role(self) -> Option<ColumnRole> {
        match self {
            Self::Date => Some(ColumnRole::Date),
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
    /// Time zone of its timestamps.
    zone: Zone,
}

impl ArrowColumn {
    /// Returns the columns of a table that are read, after checking that their types fit their
    /// roles. `plain` returns the type that the cells of a field arrive as.
    pub(crate) fn of(
        header: &FileHeader,
        fields: &Fields,
        plain: impl Fn(&DataType) -> DataType,
    ) -> Result<Vec<Self>, PanelLoadError> {
        let fields = header.uses.iter().zip(fields).enumerate();
        fields
            .filter_map(|(at, (&what, field))| Some((at, what, what.role()?, field)))
            .map(|(at, what, role, field)| {
                Self::new(at, what, role, field.name(), plain(field.data_type()))
            })
            .collect()
    }

    fn new(
        at: usize,
        what: ColumnUse,
        role: ColumnRole,
        name: &str,
        value_type: DataType,
    ) -> Result<Self, PanelLoadError> {
        if !fits(&value_type, role) {
            let (column, found) = (name.to_owned(), described(&value_type));
            return Err(PanelLoadError::ColumnType { column, found, role });
        }
        let zone = match &value_type {
            DataType::Timestamp(_, zone) => Zone::of(zone.as_deref()).ok_or_else(|| {
                let zone = zone.as_deref().unwrap_or_default().to_owned();
                PanelLoadError::UnknownZone { column: name.to_owned(), zone }
            })?,
            _ => Zone::Fixed(0),
        };
        Ok(Self { at, what, zone })
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
            ColumnUse::Ticker => self.push_tickers(array, chunk, tickers),
            ColumnUse::Value(value) => self.push_numbers(array, value, chunk),
            ColumnUse::Ignored => true,
        }
    }

    fn push_dates(&self, array: &dyn Array, chunk: &mut Chunk) -> bool {
        if let Some(texts) = texts(array) {
            for text in texts {
                let date = text.and_then(|text| Date::parse(text.trim()));
                chunk.push_date(self.at, date, || shown(text.unwrap_or("null")));
            }
            return true;
        }
        let mut push = |date: Option<Date>, cell: Option<&dyn Display>| {
            chunk.push_date(self.at, date, || match cell {
                Some(cell) => Cow::Owned(cell.to_string()),
                None => Cow::Borrowed("null"),
            });
        };
        if let Some(numbers) = integers(array) {
            for number in numbers {
                let day = number.and_then(|number| u32::try_from(number).ok());
                push(day.and_then(Date::from_number), number.as_ref().map(|n| n as &dyn Display));
            }
            return true;
        }
        let Some(seconds) = seconds(array) else { return false };
        for second in seconds {
            let local = second.and_then(|second| self.zone.local(second));
            let date = local.and_then(|local| Date::from_unix_days(local.div_euclid(DAY_SECONDS)));
            let text = second.map(|second| format!("{second} s after 1970-01-01"));
            push(date, text.as_ref().map(|text| text as &dyn Display));
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
    match role {
        ColumnRole::Date => day || data_type.is_integer() || *data_type == T::Utf8,
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
    fn stamps<T: ArrowTimestampType>(array: &dyn Array) -> Option<ColumnCells<'_, i64>> {
        let per_second = match T::UNIT {
            TimeUnit::Second => 1,
            TimeUnit::Millisecond => 1_000,
            TimeUnit::Microsecond => 1_000_000,
            TimeUnit::Nanosecond => 1_000_000_000,
        };
        let stamps = array.as_primitive_opt::<T>()?;
        Some(cells(stamps, move |stamp: i64| stamp.div_euclid(per_second)))
    }
    if let Some(days) = array.as_primitive_opt::<Date32Type>() {
        return Some(cells(days, |day| i64::from(day) * DAY_SECONDS));
    }
    if let Some(millis) = array.as_primitive_opt::<Date64Type>() {
        return Some(cells(millis, |millis| millis.div_euclid(DAY_MILLIS) * DAY_SECONDS));
    }
    stamps::<TimestampNanosecondType>(array)
        .or_else(|| stamps::<TimestampMicrosecondType>(array))
        .or_else(|| stamps::<TimestampMillisecondType>(array))
        .or_else(|| stamps::<TimestampSecondType>(array))
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
