//! Checks the outcome of a file: a usable panel, or a refusal that says where the problem is.

use backcast_market::{Panel, PanelError, PanelLoadError};

/// Result of [`used`].
pub const LOADED: &str = "loaded";

/// Uses a panel in every way that the file's content may affect.
pub fn used(panel: &Panel) -> Result<String, String> {
    let summary = panel.describe();
    let sizes = (panel.tickers().len(), panel.days(), panel.columns().len());
    if sizes.0 == 0 || sizes.1 == 0 || summary.rows == 0 {
        return Err(format!("loaded as {sizes:?}, {} rows", summary.rows));
    }
    if let Some(number) = panel.values().iter().find(|number| !number.is_finite()) {
        return Err(format!("loaded with {number}"));
    }
    if !panel.tickers().is_sorted() || !panel.dates().is_sorted() {
        return Err("loaded out of order".to_owned());
    }
    for (ticker, covered) in summary.coverage.iter().enumerate() {
        let traded = !panel.is_macro(ticker);
        if covered.rows == 0 || traded && covered.min_price.is_none_or(|price| price <= 0.0) {
            return Err(format!("loaded with {covered:?}"));
        }
    }
    Ok(LOADED.to_owned())
}

/// Returns the kind of a refusal, and checks that its message says where the problem is.
pub fn refused(error: &PanelError) -> Result<String, String> {
    use PanelLoadError as E;
    let message = error.to_string();
    let PanelError::Load { path: Some(path), problem } = error else {
        return Err(format!("no refusal of a file: {message}"));
    };
    let says = |words: &[String]| {
        let lacks = words.iter().find(|word| !message.contains(word.as_str()));
        lacks.map_or(Ok(()), |word| Err(format!("{message:?} lacks {word:?}")))
    };
    says(&[path.display().to_string()])?;
    match &**problem {
        E::BadDate { place, column, .. }
        | E::BadTime { place, column, .. }
        | E::BadTicker { place, column, .. }
        | E::BadNumber { place, column, .. }
        | E::PriceNotPositive { place, column, .. }
        | E::PriceTooSmall { place, column, .. }
        | E::NegativeVolume { place, column, .. }
        | E::HighBelowLow { place, column, .. } => {
            says(&[place.to_string(), format!("column {column:?}")])?;
        }
        E::DuplicateRow { first, second, columns, .. } => {
            let columns: Vec<String> = columns.iter().map(|column| format!("{column:?}")).collect();
            says(&[format!("{first} and {second}"), columns.join(", ")])?;
        }
        E::Ragged { line, column, .. } => {
            says(&[format!("line {line}"), format!("column {column:?}")])?;
        }
        E::NotUtf8 { line, column } => says(&[format!("line {line}, column {column}")])?,
        E::Syntax { line, .. } => says(&[format!("line {line}")])?,
        E::ColumnType { column, .. } | E::UnknownZone { column, .. } | E::Codec { column, .. } => {
            says(&[format!("column {column:?}")])?;
        }
        E::Damaged { part, .. } => {
            says(&[format!("{part} is damaged")])?;
            let part = format!("{part:?}");
            let kind = part.split([' ', '{']).next().unwrap_or_default();
            return Ok(format!("Damaged: {kind}"));
        }
        // Refusals of the whole file: its names, its size, its format.
        _ => {}
    }
    let variant = format!("{problem:?}");
    Ok(variant.split([' ', '{', '(']).next().unwrap_or_default().to_owned())
}
