// Catalogue to bytes: numbers as variable-length integers, because most of them are small and there
// are millions (a piece of three axes takes about 30 bytes instead of 350).

#include <utility>

#include "shardweld/catalogue/catalogue.hpp"

namespace shardweld::catalogue {

namespace {

// Little-endian groups of seven bits, the eighth says that more follow.
void put_number(ByteWriter& out, std::uint64_t value) {
    while (value >= 0x80U) {
        out.put(static_cast<std::uint8_t>((value & 0x7FU) | 0x80U));
        value >>= 7U;
    }
    out.put(static_cast<std::uint8_t>(value));
}

std::uint64_t get_number(ByteReader& in) {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        const auto byte = in.get<std::uint8_t>();
        value |= static_cast<std::uint64_t>(byte & 0x7FU) << shift;
        if ((byte & 0x80U) == 0) {
            return value;
        }
    }
    throw Error(ErrorCode::internal, "metadata shared between ranks holds an endless number");
}

// Zigzag: -1 becomes 1, 1 becomes 2, so that small negative numbers stay short.
void put_signed(ByteWriter& out, Index value) {
    const auto bits = static_cast<std::uint64_t>(value);
    put_number(out, (bits << 1U) ^ (value < 0 ? ~std::uint64_t{0} : 0));
}

Index get_signed(ByteReader& in) {
    const auto bits = get_number(in);
    return static_cast<Index>((bits >> 1U) ^ ((bits & 1U) != 0 ? ~std::uint64_t{0} : 0));
}

void put_shape(ByteWriter& out, const std::vector<Index>& shape) {
    put_number(out, shape.size());
    for (const Index extent : shape) {
        put_signed(out, extent);
    }
}

std::vector<Index> get_shape(ByteReader& in) {
    std::vector<Index> shape(get_number(in));
    for (Index& extent : shape) {
        extent = get_signed(in);
    }
    return shape;
}

void put_piece(ByteWriter& out, const Piece& piece) {
    put_number(out, piece.file);
    put_number(out, piece.replica);
    put_number(out, piece.base);
    put_number(out, piece.storage_bytes);
    put_number(out, piece.crc32);
    put_number(out, piece.located ? 1 : 0);
    put_signed(out, piece.patch.offset);
    put_number(out, piece.patch.axes.size());
    for (const layout::Axis& axis : piece.patch.axes) {
        put_signed(out, axis.lo);
        put_signed(out, axis.extent);
        put_signed(out, axis.stride);
    }
}

Piece get_piece(ByteReader& in) {
    Piece piece;
    piece.file = static_cast<std::uint32_t>(get_number(in));
    piece.replica = static_cast<std::uint32_t>(get_number(in));
    piece.base = get_number(in);
    piece.storage_bytes = get_number(in);
    piece.crc32 = static_cast<std::uint32_t>(get_number(in));
    piece.located = get_number(in) != 0;
    piece.patch.offset = get_signed(in);
    const auto n_axes = get_number(in);
    for (std::uint64_t k = 0; k < n_axes; ++k) {
        layout::Axis axis;
        axis.lo = get_signed(in);
        axis.extent = get_signed(in);
        axis.stride = get_signed(in);
        piece.patch.axes.push_back(axis);
    }
    return piece;
}

void put_tensor(ByteWriter& out, const Tensor& tensor) {
    out.put_text(tensor.name);
    out.put_text(tensor.placement);
    out.put(tensor.dtype);
    put_shape(out, tensor.shape);
    encode(tensor.pieces, out);
    out.put_text(tensor.stored_as);
}

Tensor get_tensor(ByteReader& in) {
    Tensor tensor;
    tensor.name = in.get_text();
    tensor.placement = in.get_text();
    tensor.dtype = in.get<DType>();
    tensor.shape = get_shape(in);
    tensor.pieces = decode_pieces(in);
    tensor.stored_as = in.get_text();
    return tensor;
}

void put_shard(ByteWriter& out, const Shard& shard) {
    out.put_text(shard.name);
    out.put(shard.dtype);
    put_shape(out, shard.shape);
    for (const int at :
         {shard.at.tp, shard.at.pp, shard.at.vpp, shard.at.ep, shard.at.etp, shard.at.fsdp}) {
        put_signed(out, at);
    }
    put_piece(out, shard.piece);
}

Shard get_shard(ByteReader& in) {
    Shard shard;
    shard.name = in.get_text();
    shard.dtype = in.get<DType>();
    shard.shape = get_shape(in);
    for (int* at :
         {&shard.at.tp, &shard.at.pp, &shard.at.vpp, &shard.at.ep, &shard.at.etp, &shard.at.fsdp}) {
        *at = static_cast<int>(get_signed(in));
    }
    shard.piece = get_piece(in);
    return shard;
}

void put_ignored(ByteWriter& out, const Ignored& ignored) {
    out.put_text(ignored.pattern);
    out.put_text(ignored.reason);
    put_signed(out, ignored.count);
    put_number(out, ignored.bytes);
}

Ignored get_ignored(ByteReader& in) {
    Ignored ignored;
    ignored.pattern = in.get_text();
    ignored.reason = in.get_text();
    ignored.count = get_signed(in);
    ignored.bytes = get_number(in);
    return ignored;
}

void put_file(ByteWriter& out, const File& file) {
    out.put_text(file.path);
    put_number(out, file.size);
}

File get_file(ByteReader& in) {
    File file;
    file.path = in.get_text();
    file.size = get_number(in);
    return file;
}

void put_note(ByteWriter& out, const std::string& note) {
    out.put_text(note);
}
std::string get_note(ByteReader& in) {
    return in.get_text();
}

template <typename T>
void put_list(ByteWriter& out, std::span<const T> values, void (*put)(ByteWriter&, const T&)) {
    put_number(out, values.size());
    for (const T& value : values) {
        put(out, value);
    }
}

template <typename T>
std::vector<T> get_list(ByteReader& in, T (*get)(ByteReader&)) {
    std::vector<T> values;
    const auto count = get_number(in);
    for (std::uint64_t i = 0; i < count; ++i) {
        values.push_back(get(in));
    }
    return values;
}

void put_counts(ByteWriter& out, const std::map<std::string, Index>& counts) {
    put_number(out, counts.size());
    for (const auto& [key, value] : counts) {
        out.put_text(key);
        put_signed(out, value);
    }
}

std::map<std::string, Index> get_counts(ByteReader& in) {
    std::map<std::string, Index> counts;
    const auto count = get_number(in);
    for (std::uint64_t i = 0; i < count; ++i) {
        auto key = in.get_text();
        counts[std::move(key)] = get_signed(in);
    }
    return counts;
}

void put_claims(ByteWriter& out, const Claims& claims) {
    put_number(out, claims.size());
    for (const auto& [key, value] : claims) {
        out.put_text(key);
        out.put_text(value);
    }
}

Claims get_claims(ByteReader& in) {
    Claims claims;
    const auto count = get_number(in);
    for (std::uint64_t i = 0; i < count; ++i) {
        auto key = in.get_text();
        claims[std::move(key)] = in.get_text();
    }
    return claims;
}

void put_statement(ByteWriter& out, const Statement& statement) {
    out.put_text(statement.file);
    out.put_text(statement.source);
    put_claims(out, statement.rank);
    put_claims(out, statement.save);
    out.put(statement.is_inner);
    out.put_text(statement.likeness);
}

Statement get_statement(ByteReader& in) {
    Statement statement;
    statement.file = in.get_text();
    statement.source = in.get_text();
    statement.rank = get_claims(in);
    statement.save = get_claims(in);
    statement.is_inner = in.get<bool>();
    statement.likeness = in.get_text();
    return statement;
}

}  // namespace

void encode(std::span<const Statement> statements, ByteWriter& out) {
    put_list(out, statements, &put_statement);
}

std::vector<Statement> decode_statements(ByteReader& in) {
    return get_list(in, &get_statement);
}

void encode(std::span<const Piece> pieces, ByteWriter& out) {
    put_list(out, pieces, &put_piece);
}

std::vector<Piece> decode_pieces(ByteReader& in) {
    return get_list(in, &get_piece);
}

void encode(const Catalogue& catalogue, ByteWriter& out) {
    out.put_text(catalogue.format);
    out.put_text(catalogue.dialect);
    put_list<std::string>(out, catalogue.notes, &put_note);
    put_claims(out, catalogue.warnings);
    put_list<File>(out, catalogue.files, &put_file);
    put_list<Tensor>(out, catalogue.tensors, &put_tensor);
    put_list<Shard>(out, catalogue.shards, &put_shard);
    put_list<Ignored>(out, catalogue.ignored, &put_ignored);
    put_counts(out, catalogue.facts);
    put_claims(out, catalogue.claims);
    put_list<Statement>(out, catalogue.statements, &put_statement);
    put_counts(out, catalogue.inert_globals);
}

Catalogue decode_catalogue(ByteReader& in) {
    Catalogue catalogue;
    catalogue.format = in.get_text();
    catalogue.dialect = in.get_text();
    catalogue.notes = get_list(in, &get_note);
    catalogue.warnings = get_claims(in);
    catalogue.files = get_list(in, &get_file);
    catalogue.tensors = get_list(in, &get_tensor);
    catalogue.shards = get_list(in, &get_shard);
    catalogue.ignored = get_list(in, &get_ignored);
    catalogue.facts = get_counts(in);
    catalogue.claims = get_claims(in);
    catalogue.statements = get_list(in, &get_statement);
    catalogue.inert_globals = get_counts(in);
    return catalogue;
}

}  // namespace shardweld::catalogue
