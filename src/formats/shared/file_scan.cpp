#include "file_scan.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "shardweld/catalogue/catalogue.hpp"
#include "shardweld/core/error.hpp"
#include "shardweld/core/text.hpp"
#include "shardweld/io/input_file.hpp"

#include "../containers/pickle_bytes.hpp"

namespace shardweld::formats {

using catalogue::Catalogue;

Catalogue scan_torch_file(const Location& location, const std::string& file,
                          const std::function<void(const TorchFile&, Catalogue&)>& add) {
    return scan_torch_file(io::InputFile::open(location.directory / file), location, file, add);
}

Catalogue scan_torch_file(const io::InputFile& input, const Location& location,
                          const std::string& file,
                          const std::function<void(const TorchFile&, Catalogue&)>& add) {
    const TorchFile torch_file = TorchFile::read(input, 0, std::nullopt, location.check_crc);
    Catalogue out;
    out.files.push_back({file, input.size()});
    for (const std::string& global : torch_file.pickle().inert_globals()) {
        out.inert_globals[global] = 1;
    }
    try {
        add(torch_file, out);
        torch_file.require_unchanged();
    } catch (Error& error) {
        error.add_context("file " + printable(file));
        throw;
    } catch (const std::bad_alloc&) {
        throw_no_memory(location.directory / file);
    }
    return out;
}

bool is_no_weight(const PickleValue& value) {
    switch (value.kind) {
        case PickleKind::none:
        case PickleKind::boolean:
        case PickleKind::integer:
        case PickleKind::big_integer:
        case PickleKind::real:
        case PickleKind::text:
        case PickleKind::bytes:
            return true;
        default:
            return value.class_name() == "_io BytesIO";
    }
}

std::uint32_t join_scan(Catalogue& scan, IgnoredRows& ignored, Catalogue& out) {
    const auto file = static_cast<std::uint32_t>(out.files.size());
    out.files.push_back(std::move(scan.files.front()));
    ignored.add(scan.ignored);
    std::move(scan.statements.begin(), scan.statements.end(), std::back_inserter(out.statements));
    for (const auto& [global, count] : scan.inert_globals) {
        out.inert_globals[global] += count;
    }
    return file;
}

}  // namespace shardweld::formats
