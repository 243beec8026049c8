// The stages in which a catalogue is read, and the serial way through them.
// Knows no format.

#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "shardweld/core/error.hpp"
#include "shardweld/formats/format.hpp"
#include "shardweld/io/kind.hpp"

#include "closed_world.hpp"
#include "directory.hpp"

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

/// One rank sees all files or it cannot go on; with several ranks the survey asks who sees which.
void require_files(const Location& location, const catalogue::Catalogue& catalogue) {
    std::vector<std::string> missing;
    for (const catalogue::File& file : catalogue.files) {
        if (!io::is_file(location.directory / file.path)) {
            missing.push_back(file.path);
        }
    }
    if (!missing.empty()) {
        throw Error(ErrorCode::not_found, std::to_string(missing.size()) + " of " +
                                              std::to_string(catalogue.files.size()) +
                                              " shard files are missing in " +
                                              location.directory.string() + ": " +
                                              name_list(missing) + "; copy the files of all ranks");
    }
}

// Where the next piece of a file is taken from.
struct Next {
    const Resolution* resolution = nullptr;
    std::size_t* position = nullptr;
};

}  // namespace

Resolution Format::resolve(const Location& /*location*/, const catalogue::Catalogue& /*catalogue*/,
                           std::span<const std::uint32_t> files,
                           const std::function<void()>& /*before_file*/) const {
    if (!files.empty()) {
        throw Error(ErrorCode::internal, std::string(name()) + " leaves no piece to be located");
    }
    return {};
}

catalogue::Catalogue combine(const Location& location, std::vector<catalogue::Catalogue> scans) {
    auto catalogue = format_of(location).combine(location, std::move(scans));
    catalogue.warnings.insert(location.warnings.begin(), location.warnings.end());
    account_for_neighbours(location, catalogue);
    return catalogue;
}

std::vector<std::uint32_t> resolve_list(const catalogue::Catalogue& catalogue) {
    std::set<std::uint32_t> files;
    for (const auto& tensor : catalogue.tensors) {
        for (const auto& piece : tensor.pieces) {
            if (!piece.located) {
                files.insert(piece.file);
            }
        }
    }
    return {files.begin(), files.end()};
}

void settle(catalogue::Catalogue& catalogue, const std::vector<Resolution>& resolutions) {
    std::vector<std::size_t> positions(resolutions.size(), 0);
    std::map<std::uint32_t, Next> next;
    for (std::size_t r = 0; r < resolutions.size(); ++r) {
        for (std::size_t i = 0; i < resolutions[r].files.size(); ++i) {
            const std::uint32_t file = resolutions[r].files[i];
            catalogue.files.at(file).size = resolutions[r].sizes.at(i);
            next[file] = {&resolutions[r], &positions[r]};
        }
    }
    for (auto& tensor : catalogue.tensors) {
        for (auto& piece : tensor.pieces) {
            if (piece.located) {
                continue;
            }
            const auto at = next.find(piece.file);
            if (at == next.end() || *at->second.position >= at->second.resolution->pieces.size()) {
                throw Error(ErrorCode::internal, "no rank located a piece of " + tensor.name);
            }
            piece = at->second.resolution->pieces[(*at->second.position)++];
        }
    }
    for (std::size_t r = 0; r < resolutions.size(); ++r) {
        if (positions[r] != resolutions[r].pieces.size()) {
            throw Error(ErrorCode::internal,
                        "pieces were located that the catalogue does not have");
        }
    }
}

catalogue::Catalogue read_catalogue(const Location& location) {
    const Format& format = format_of(location);
    std::vector<catalogue::Catalogue> scans;
    for (const std::string& file : format.scan_list(location)) {
        scans.push_back(format.scan(location, file));
    }
    auto catalogue = combine(location, std::move(scans));
    require_files(location, catalogue);
    const auto files = resolve_list(catalogue);
    settle(catalogue, {format.resolve(location, catalogue, files, [] {})});
    return catalogue;
}

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
