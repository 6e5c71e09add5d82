//! Writes the Parquet file of one episode.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StructArray};
use arrow_schema::{DataType, Field, Fields, Schema as ArrowSchema};
use backcast_core::{DType, TERMINATED, TRUNCATED};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

use super::parts::DatasetParts;
use super::{ACTIONS, INFOS, OBSERVATIONS, REWARDS, TERMINATIONS, TRUNCATIONS};
use crate::columns::{array, io_error};
use crate::integers::integers;

/// Key of an info's shape in the metadata of its field.
pub(super) const SHAPE: &str = "shape";

/// Rows of an episode: its steps and the final observation.
pub(super) struct EpisodeData<'a> {
    pub(super) parts: &'a DatasetParts<'a>,
    /// Bytes by column of the schema.
    pub(super) columns: &'a [Vec<u8>],
    pub(super) flags: &'a [u32],
}

impl EpisodeData<'_> {
    /// Writes the file, forces it to disk and returns its size in bytes.
    pub(super) fn write(&self, path: &Path) -> io::Result<u64> {
        let DatasetParts { obs, action, reward, infos, .. } = self.parts;
        let flag = |mask: u32| {
            // The last row is not a step.
            let steps = self.flags.len() - 1;
            let set = self.flags.iter().take(steps).map(|flags| u8::from(flags & mask != 0));
            let bytes: Vec<u8> = set.chain([0]).collect();
            array(DType::Bool, &[], &bytes)
        };
        let (rewards, reward) = (self.field(REWARDS, *reward), self.array(*reward));
        let mut columns = vec![
            self.tree(OBSERVATIONS, obs),
            self.tree(ACTIONS, action),
            (rewards, reward),
            (Field::new(TERMINATIONS, DataType::Boolean, false), flag(TERMINATED)),
            (Field::new(TRUNCATIONS, DataType::Boolean, false), flag(TRUNCATED)),
        ];
        if !infos.is_empty() {
            columns.push(self.tree(INFOS, infos));
        }
        let (fields, columns): (Vec<Field>, Vec<ArrayRef>) = columns.into_iter().unzip();
        let schema = Arc::new(ArrowSchema::new(fields));
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns).map_err(io::Error::other)?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_created_by("backcast".to_owned())
            .build();
        let mut file = File::create_new(path)?;
        let mut writer =
            ArrowWriter::try_new(&mut file, schema, Some(properties)).map_err(io_error)?;
        writer.write(&batch).map_err(io_error)?;
        writer.close().map_err(io_error)?;
        file.sync_all()?;
        Ok(file.metadata()?.len())
    }

    /// Returns one array for a single column that is not nested below `name`, else a struct of the
    /// columns.
    fn tree(&self, name: &str, at: &[usize]) -> (Field, ArrayRef) {
        let paths: Vec<Vec<&str>> = at.iter().map(|at| self.parts.path(*at).split_off(1)).collect();
        match (at, &*paths) {
            ([only], [path]) if path.is_empty() => (self.field(name, *only), self.array(*only)),
            _ => self.nested(name, at, &paths),
        }
    }

    /// Returns a struct of the columns `at`, nested by their paths.
    fn nested(&self, name: &str, at: &[usize], paths: &[Vec<&str>]) -> (Field, ArrayRef) {
        let mut fields = Vec::new();
        let mut arrays = Vec::new();
        let mut done: Vec<&str> = Vec::new();
        for (column, path) in at.iter().zip(paths) {
            let Some(first) = path.first().filter(|first| !done.contains(first)) else { continue };
            done.push(first);
            let (field, array) = if path.len() == 1 {
                (self.field(first, *column), self.array(*column))
            } else {
                let below = || at.iter().zip(paths).filter(|(_, path)| path.first() == Some(first));
                let inner: Vec<usize> = below().map(|(at, _)| *at).collect();
                let rest: Vec<Vec<&str>> = below().map(|(_, path)| path[1..].to_vec()).collect();
                self.nested(first, &inner, &rest)
            };
            fields.push(Arc::new(field));
            arrays.push(array);
        }
        let fields = Fields::from(fields);
        let array = StructArray::new(fields.clone(), arrays, None);
        (Field::new(name, DataType::Struct(fields), false), Arc::new(array))
    }

    fn field(&self, name: &str, at: usize) -> Field {
        let field = Field::new(name, self.array(at).data_type().clone(), false);
        let shape = self.parts.schema.columns().get(at).map_or(&[][..], |column| column.shape());
        if shape.is_empty() || !self.parts.infos.contains(&at) {
            return field;
        }
        // Spaces have no infos, so the field keeps the shape.
        let shape: Vec<String> = shape.iter().map(u32::to_string).collect();
        field.with_metadata(HashMap::from([(SHAPE.to_owned(), shape.join(","))]))
    }

    /// Returns a column as Minari stores it: lists, except for choices, rewards and scalar infos.
    fn array(&self, at: usize) -> ArrayRef {
        let (Some(column), Some(bytes)) =
            (self.parts.schema.columns().get(at), self.columns.get(at))
        else {
            return array(DType::U8, &[], &[]);
        };
        if self.parts.is_choice(at) {
            // `count_choices` refused values that do not fit, except in the unused action of the
            // last row.
            let choices =
                integers(column.dtype(), bytes).map(|value| i64::try_from(value).unwrap_or(0));
            let choices: Vec<u8> = choices.flat_map(i64::to_ne_bytes).collect();
            return array(DType::I64, &[], &choices);
        }
        let lone =
            at == self.parts.reward || column.shape().is_empty() && self.parts.infos.contains(&at);
        let items = u32::try_from(column.items()).unwrap_or(u32::MAX);
        array(column.dtype(), if lone { &[] } else { std::slice::from_ref(&items) }, bytes)
    }
}
