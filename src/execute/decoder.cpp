#include "decoder.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/in_context.hpp"
#include "layout/copy.hpp"
#include "layout/unfold.hpp"
#include "numeric/convert.hpp"
#include "numeric/quantise.hpp"

namespace shardweld::execute {

namespace {

/// Columns that share a scale.
Index tile_columns(const plan::Decode& how) {
    const Index columns = facts_of(how.encoding).tile_columns;
    return columns == 0 ? how.n_columns : columns;
}

/// Whether a patch has whole rows, one behind the other.
bool has_whole_rows(const plan::Decode& how, const layout::Patch& patch) {
    const layout::Axis& columns = patch.axes[1];
    return columns.extent == how.n_columns && (columns.stride == 1 || columns.extent == 1) &&
           (patch.axes[0].stride == columns.extent || patch.axes[0].extent == 1);
}

Bytes bf16_bytes(Index n) {
    return static_cast<Bytes>(n) * size_of(DType::bf16);
}

}  // namespace

ByteSpan Decoder::scales_of(const plan::Decode& how, Bytes first, Bytes n) {
    const bool is_shared = how.rows_per_scale > 0;
    const Bytes size = how.scale_row_bytes();
    const auto tile = static_cast<Bytes>(how.rows_of_scale());
    const Bytes begin = first / tile;
    const Bytes count = (first + n - 1) / tile + 1 - begin;
    const auto scales = scales_.get((is_shared ? n : count) * size);
    factors_.read(how.scales_at + begin * size, scales.first(count * size));
    for (Bytes row = is_shared ? n : 0; row-- > 0;) {  // each row gets its own, from the last
        std::memmove(&scales[row * size], &scales[((first + row) / tile - begin) * size], size);
    }
    return scales;
}

float Decoder::global_of(const plan::Decode& how) {
    float global = 1;
    if (facts_of(how.encoding).divisor != nullptr) {
        factors_.read(how.global_at, std::span(&global, 1));
    }
    return global;
}

void Decoder::decode_parts(const plan::Target& target, layout::Range elements, ByteView codes,
                           ByteSpan out) {
    in_context("tensor ", target.name, [&] {
        for (const plan::DecodedPart& part : target.decoded) {
            decode_part({part.how, target.dtype, codes, out}, part.copy, elements);
        }
    });
}

/// `part`: where the weight's elements stand in the target, of which the slice is `elements`.
void Decoder::decode_part(const CodedSlice& slice, const layout::Copy& part,
                          layout::Range elements) {
    const std::array<Index, 2> shape{slice.how.n_rows, slice.how.n_columns};
    for (const layout::Copy& copy : layout::part_in(part, elements)) {
        for (const layout::Patch& patch : layout::unfold_src(copy, shape)) {
            decode(slice, patch);
        }
    }
}

/// `patch`: rows and columns of the weight, and where they stand in the slice.
void Decoder::decode(const CodedSlice& slice, const layout::Patch& patch) {
    if (slice.how.is_turned()) {
        decode_turned(slice, patch);
    } else if (has_whole_rows(slice.how, patch)) {
        decode_rows(slice, patch);
    } else {
        for (Index row = 0; row < patch.axes[0].extent; ++row) {
            decode_row(slice, patch, row);
        }
    }
}

/// Whole rows at once; those of a tile that begins before them by themselves.
void Decoder::decode_rows(const CodedSlice& slice, const layout::Patch& patch) {
    const plan::Decode& how = slice.how;
    const Index tile = facts_of(how.encoding).tile_rows;
    const Bytes code_size = size_of(facts_of(how.encoding).codes);
    const Bytes row_codes = static_cast<Bytes>(how.codes_in(1)) * code_size;
    Index n = 0;
    for (Index i = 0; i < patch.axes[0].extent; i += n) {
        const Index row = patch.axes[0].lo + i;
        const Index left = patch.axes[0].extent - i;
        n = row % tile == 0 ? left : std::min(left, tile - row % tile);
        n = std::min(n, how.strip_rows);
        const numeric::QuantisedRows rows{how.encoding, how.scales, n, how.n_columns,
                                          global_of(how)};
        const Index at = patch.offset + i * how.n_columns;
        const auto values = values_.get(bf16_bytes(n * how.n_columns));
        numeric::dequantise(rows,
                            slice.codes.subspan(static_cast<Bytes>(at / how.packing()) * code_size,
                                                static_cast<Bytes>(n) * row_codes),
                            scales_of(how, static_cast<Bytes>(row), static_cast<Bytes>(n)), values);
        write_values(slice, values, {0, at, {{n * how.n_columns, 1, 1}}});
    }
}

/// A part of a row: up to the end of a tile, then from there on.
void Decoder::decode_row(const CodedSlice& slice, const layout::Patch& patch, Index row) {
    const plan::Decode& how = slice.how;
    const EncodingFacts& facts = facts_of(how.encoding);
    const layout::Axis& columns = patch.axes[1];
    const Index tile = tile_columns(how);
    const Bytes scale_size = size_of(facts.scale_type(how.scales));
    const Bytes code_size = size_of(facts.codes);
    const auto scales = scales_of(how, static_cast<Bytes>(patch.axes[0].lo + row), 1);
    Index n = 0;
    for (Index c = columns.lo; c < columns.range().end(); c += n) {
        const Index left = columns.range().end() - c;
        n = c % tile == 0 ? left : std::min(left, tile - c % tile);
        const Index at =
            patch.offset + row * patch.axes[0].stride + (c - columns.lo) * columns.stride;
        const auto codes = codes_.get(static_cast<Bytes>(facts.code_columns(n)) * code_size);
        const Index step = how.packing() > 1 ? 1 : columns.stride;
        layout::run({at / how.packing(), 0, {{facts.code_columns(n), step, 1}}}, code_size,
                    slice.codes, codes);
        const auto values = values_.get(bf16_bytes(n));
        numeric::dequantise({how.encoding, how.scales, 1, n, global_of(how)}, codes,
                            scales.subspan(static_cast<Bytes>(c / tile) * scale_size,
                                           static_cast<Bytes>(facts.scale_columns(n)) * scale_size),
                            values);
        write_values(slice, values, {0, at, {{n, 1, columns.stride}}});
    }
}

/// Codes that stand by columns of the weight: tiles of rows, which are filled up with codes that
/// nobody asks for.
void Decoder::decode_turned(const CodedSlice& slice, const layout::Patch& patch) {
    const plan::Decode& how = slice.how;
    const Index tile = facts_of(how.encoding).tile_columns;
    const layout::Axis& rows = patch.axes[0];
    const layout::Axis& columns = patch.axes[1];
    const Index n = columns.extent;
    const auto codes = codes_.get(static_cast<Bytes>(tile / 2 * n));
    const auto scales = scales_.get(static_cast<Bytes>(n) * size_of(how.scales));
    const auto values = values_.get(bf16_bytes(tile * n));
    Index row = rows.lo;
    while (row < rows.range().end()) {
        const Index first = row / tile * tile;
        const Index end = std::min(first + tile, rows.range().end());
        const Index at = patch.offset + row - rows.lo;
        std::ranges::fill(codes, std::byte{});
        layout::run(
            {at / 2, (row - first) / 2 * n, {{n, columns.stride / 2, 1}, {(end - row) / 2, 1, n}}},
            1, slice.codes, codes);
        factors_.read(how.scales_at + static_cast<Bytes>(first / tile) * how.scale_row_bytes() +
                          static_cast<Bytes>(columns.lo) * size_of(how.scales),
                      scales);
        numeric::dequantise_turned({how.encoding, how.scales, tile, n}, codes, scales, values);
        write_values(
            slice, values,
            {(row - first) * n, at, {{n, 1, columns.stride}, {end - row, n, rows.stride}}});
        row = end;
    }
}

/// Puts values of bf16 where they belong.
void Decoder::write_values(const CodedSlice& slice, ByteView values, const layout::Copy& copy) {
    const Bytes size = size_of(slice.written);
    if (slice.written != DType::bf16) {
        const auto cast = cast_.get(values.size() / size_of(DType::bf16) * size);
        numeric::convert(DType::bf16, values, slice.written, cast);
        values = cast;
    }
    layout::run(copy, size, values, slice.out);
}

}  // namespace shardweld::execute
