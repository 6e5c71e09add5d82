//! Metadata of Arrow IPC files, by which other programs find the values.
//!
//! Arrow's library writes the flatbuffers. The values are written directly, without the copies of a
//! record batch.

use std::collections::HashMap;

use arrow_ipc::convert::IpcSchemaEncoder;
use arrow_ipc::{
    Block, Buffer, FieldNode, FooterBuilder, MessageBuilder, MessageHeader, MetadataVersion,
    RecordBatchBuilder,
};
use arrow_schema::{Field, Schema};
use backcast_files::arrow_field;
use flatbuffers::FlatBufferBuilder;

use crate::layout::{ALIGN, BatchLayout, BodyPlace};

const MAGIC: &[u8; 6] = b"ARROW1";
/// Marker before the length of a message.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// Place of a batch in its file, for the footer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchBlock {
    pub(crate) at: u64,
    pub(crate) frame_bytes: u64,
    pub(crate) body_bytes: u64,
}

/// Returns the schema of a file with the metadata `about`.
pub(crate) fn schema(layout: &BatchLayout, about: &[(&str, String)]) -> Schema {
    let fields: Vec<Field> = layout
        .columns
        .iter()
        .map(|column| arrow_field(&column.name, column.dtype, &column.shape))
        .collect();
    let about = about.iter().map(|(key, value)| ((*key).to_owned(), value.clone()));
    Schema::new_with_metadata(fields, about.collect::<HashMap<_, _>>())
}

/// Returns the head of a file: magic and schema, padded to [`ALIGN`].
pub(crate) fn head(schema: &Schema) -> Vec<u8> {
    let mut fbb = FlatBufferBuilder::new();
    let schema = IpcSchemaEncoder::new().schema_to_fb_offset(&mut fbb, schema);
    let mut message = MessageBuilder::new(&mut fbb);
    message.add_version(MetadataVersion::V5);
    message.add_header_type(MessageHeader::Schema);
    message.add_bodyLength(0);
    message.add_header(schema.as_union_value());
    let message = message.finish();
    fbb.finish(message, None);
    let mut head = MAGIC.to_vec();
    head.resize(8, 0);
    append_message(&mut head, fbb.finished_data());
    head
}

/// Returns the message before the values of a batch.
pub(crate) fn frame(layout: &BatchLayout, rows: u64, places: &[BodyPlace], body: u64) -> Vec<u8> {
    let mut nodes = Vec::new();
    let mut buffers = Vec::new();
    for (column, place) in layout.columns.iter().zip(places) {
        let items = rows.saturating_mul(column.items);
        // No column has nulls, so there are no validity bitmaps.
        let bitmap = Buffer::new(signed(place.offset), 0);
        nodes.push(FieldNode::new(signed(rows), 0));
        buffers.push(bitmap);
        if !column.shape.is_empty() {
            nodes.push(FieldNode::new(signed(items), 0));
            buffers.push(bitmap);
        }
        buffers.push(Buffer::new(signed(place.offset), signed(place.bytes)));
    }
    let mut fbb = FlatBufferBuilder::new();
    let (nodes, buffers) = (fbb.create_vector(&nodes), fbb.create_vector(&buffers));
    let mut batch = RecordBatchBuilder::new(&mut fbb);
    batch.add_length(signed(rows));
    batch.add_nodes(nodes);
    batch.add_buffers(buffers);
    let batch = batch.finish();
    let mut message = MessageBuilder::new(&mut fbb);
    message.add_version(MetadataVersion::V5);
    message.add_header_type(MessageHeader::RecordBatch);
    message.add_bodyLength(signed(body));
    message.add_header(batch.as_union_value());
    let message = message.finish();
    fbb.finish(message, None);
    let mut frame = Vec::new();
    append_message(&mut frame, fbb.finished_data());
    frame
}

/// Returns the tail of a file: the end-of-stream marker, and a footer with the schema and the
/// places of the batches.
pub(crate) fn tail(schema: &Schema, batches: &[BatchBlock]) -> Vec<u8> {
    let blocks: Vec<Block> = batches
        .iter()
        .map(|batch| {
            let frame = i32::try_from(batch.frame_bytes).unwrap_or(i32::MAX);
            Block::new(signed(batch.at), frame, signed(batch.body_bytes))
        })
        .collect();
    let mut fbb = FlatBufferBuilder::new();
    let batches = fbb.create_vector(&blocks);
    let dictionaries = fbb.create_vector::<Block>(&[]);
    let schema = IpcSchemaEncoder::new().schema_to_fb_offset(&mut fbb, schema);
    let mut footer = FooterBuilder::new(&mut fbb);
    footer.add_version(MetadataVersion::V5);
    footer.add_schema(schema);
    footer.add_dictionaries(dictionaries);
    footer.add_recordBatches(batches);
    let footer = footer.finish();
    fbb.finish(footer, None);
    let footer = fbb.finished_data();
    // An empty message ends the stream. Readers find the footer from the end of the file.
    let mut tail = [CONTINUATION, [0; 4]].concat();
    tail.extend_from_slice(footer);
    tail.extend_from_slice(&i32::try_from(footer.len()).unwrap_or(i32::MAX).to_le_bytes());
    tail.extend_from_slice(MAGIC);
    tail
}

/// Appends the length and flatbuffer of a message, padded to [`ALIGN`].
fn append_message(out: &mut Vec<u8>, flatbuffer: &[u8]) {
    let align = usize::try_from(ALIGN).unwrap_or(1);
    let prefix = CONTINUATION.len() + size_of::<i32>();
    let end = (out.len() + prefix + flatbuffer.len()).next_multiple_of(align);
    let length = i32::try_from(end - out.len() - prefix).unwrap_or(i32::MAX);
    out.extend_from_slice(&CONTINUATION);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(flatbuffer);
    out.resize(end, 0);
}

/// Converts to Arrow's signed integers; [`BatchLayout::places`] bounds the values.
fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
