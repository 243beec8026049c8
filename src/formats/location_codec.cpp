// Locations and resolutions as bytes, for sharing between ranks.
// Knows no format.

#include <utility>

#include "shardweld/formats/format.hpp"

namespace shardweld::formats {

namespace {

void put_texts(ByteWriter& out, const std::vector<std::string>& texts) {
    out.put<std::uint64_t>(texts.size());
    for (const std::string& text : texts) {
        out.put_text(text);
    }
}

std::vector<std::string> get_texts(ByteReader& in) {
    std::vector<std::string> texts;
    const auto count = in.get<std::uint64_t>();
    for (std::uint64_t i = 0; i < count; ++i) {
        texts.push_back(in.get_text());
    }
    return texts;
}

void put_path(ByteWriter& out, const std::optional<fs::path>& path) {
    out.put(path.has_value());
    out.put_text(path ? path->string() : std::string());
}

std::optional<fs::path> get_path(ByteReader& in) {
    const bool present = in.get<bool>();
    auto text = in.get_text();
    return present ? std::optional<fs::path>(std::move(text)) : std::nullopt;
}

}  // namespace

void encode(const Location& location, ByteWriter& out) {
    out.put_text(location.format);
    out.put_text(location.directory.string());
    put_texts(out, location.shard_files);
    out.put<std::uint64_t>(location.neighbours.size());
    for (const Neighbour& neighbour : location.neighbours) {
        out.put_text(neighbour.path);
        out.put(neighbour.bytes);
    }
    put_path(out, location.hf_directory);
    put_path(out, location.claims_file);
    put_texts(out, location.notes);
    out.put<std::uint64_t>(location.facts.size());
    for (const auto& [name, value] : location.facts) {
        out.put_text(name);
        out.put(value);
    }
    out.put<std::uint64_t>(location.warnings.size());
    for (const auto& [code, text] : location.warnings) {
        out.put_text(code);
        out.put_text(text);
    }
    catalogue::encode(location.statements, out);
    put_texts(out, location.mesh.names);
    out.put_all(std::span<const Index>(location.mesh.shape));
    out.put_text(location.prefix);
    out.put(location.check_crc);
}

Location decode_location(ByteReader& in) {
    Location location;
    location.format = in.get_text();
    location.directory = in.get_text();
    location.shard_files = get_texts(in);
    const auto n_neighbours = in.get<std::uint64_t>();
    for (std::uint64_t i = 0; i < n_neighbours; ++i) {
        auto path = in.get_text();
        location.neighbours.push_back({std::move(path), in.get<Bytes>()});
    }
    location.hf_directory = get_path(in);
    location.claims_file = get_path(in);
    location.notes = get_texts(in);
    const auto n_facts = in.get<std::uint64_t>();
    for (std::uint64_t i = 0; i < n_facts; ++i) {
        auto name = in.get_text();
        location.facts[std::move(name)] = in.get<Index>();
    }
    const auto n_warnings = in.get<std::uint64_t>();
    for (std::uint64_t i = 0; i < n_warnings; ++i) {
        auto code = in.get_text();
        location.warnings[std::move(code)] = in.get_text();
    }
    location.statements = catalogue::decode_statements(in);
    location.mesh.names = get_texts(in);
    location.mesh.shape = in.get_all<Index>();
    location.prefix = in.get_text();
    location.check_crc = in.get<bool>();
    return location;
}

void encode(const Resolution& resolution, ByteWriter& out) {
    out.put_all(std::span<const std::uint32_t>(resolution.files));
    out.put_all(std::span<const Bytes>(resolution.sizes));
    catalogue::encode(resolution.pieces, out);
}

Resolution decode_resolution(ByteReader& in) {
    Resolution resolution;
    resolution.files = in.get_all<std::uint32_t>();
    resolution.sizes = in.get_all<Bytes>();
    resolution.pieces = catalogue::decode_pieces(in);
    return resolution;
}

}  // namespace shardweld::formats
