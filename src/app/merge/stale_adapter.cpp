#include "stale_adapter.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "core/text.hpp"
#include "formats/containers/safetensors_header.hpp"
#include "io/input_file.hpp"
#include "io/paths.hpp"
#include "mpi/share.hpp"
#include "numeric/convert.hpp"
#include "shardweld/error.hpp"

namespace shardweld::app {

namespace {

constexpr const char* kGathered = "adapter_model.safetensors";
constexpr Index kElementsAtOnce = 1 << 18;

/// Versions of verl leave PEFT's prefix away, or the adapter's own name in.
std::string plain_name(std::string_view name) {
    constexpr std::string_view kPrefix = "base_model.model.";
    constexpr std::string_view kOwn = ".default.";
    while (name.starts_with(kPrefix)) {
        name.remove_prefix(kPrefix.size());
    }
    const auto own = name.find(kOwn);
    return own == std::string_view::npos
               ? std::string(name)
               : std::string(name.substr(0, own + 1)) + std::string(name.substr(own + kOwn.size()));
}

/// The factors of one file, by their plain names.
struct Factors {
    explicit Factors(const fs::path& path) : file(io::InputFile::open(path)) {
        for (auto& [name, tensor] : formats::read_safetensors_header(file)) {
            if (name.find(".lora_") != std::string::npos) {
                tensors.emplace(plain_name(name), std::move(tensor));
            }
        }
    }

    io::InputFile file;
    std::map<std::string, formats::StoredTensor> tensors;
};

std::vector<std::byte> values_of(const io::InputFile& file, const formats::StoredTensor& tensor,
                                 Index begin, Index count, DType type) {
    std::vector<std::byte> stored(static_cast<std::size_t>(count) * size_of(tensor.dtype));
    file.read_at(tensor.storage_offset + static_cast<Bytes>(begin) * size_of(tensor.dtype), stored);
    if (tensor.dtype == type) {
        return stored;
    }
    std::vector<std::byte> values(static_cast<std::size_t>(count) * size_of(type));
    numeric::convert(tensor.dtype, stored, type, values);
    return values;
}

/// In the narrower of both types. nullopt: they have none in common.
std::optional<bool> are_equal(const Factors& a, const Factors& b, const std::string& name) {
    const formats::StoredTensor& one = a.tensors.at(name);
    const formats::StoredTensor& other = b.tensors.at(name);
    if (one.shape != other.shape) {
        return false;
    }
    const DType type = size_of(one.dtype) < size_of(other.dtype) ? one.dtype : other.dtype;
    const bool is_narrower = size_of(one.dtype) != size_of(other.dtype);
    if (one.dtype != other.dtype && !(is_narrower && numeric::can_convert(one.dtype, type) &&
                                      numeric::can_convert(other.dtype, type))) {
        return std::nullopt;
    }
    const Index volume = one.volume();
    for (Index begin = 0; begin < volume; begin += kElementsAtOnce) {
        const Index count = std::min(kElementsAtOnce, volume - begin);
        if (values_of(a.file, one, begin, count, type) !=
            values_of(b.file, other, begin, count, type)) {
            return false;
        }
    }
    return true;
}

/// What is wrong with `gathered`; "" if nothing.
std::string difference(const Factors& gathered, const Factors& shards) {
    std::vector<std::string> others;
    std::size_t n_unlike = 0;
    for (const auto& [name, tensor] : shards.tensors) {
        const auto equal = gathered.tensors.contains(name) ? are_equal(gathered, shards, name)
                                                           : std::optional(false);
        n_unlike += equal ? 0U : 1U;
        if (equal == false) {
            others.push_back(name);
        }
    }
    for (const auto& [name, tensor] : gathered.tensors) {
        if (!shards.tensors.contains(name)) {
            others.push_back(name);
        }
    }
    if (!others.empty()) {
        return "has other factors than the shards: " + std::to_string(others.size()) +
               " differ, such as " + printable(others.front()) +
               ". It is another step's or another run's, and so may be the settings beside it "
               "(lora_alpha, use_rslora); the shards' factors were taken";
    }
    return n_unlike == 0 ? ""
                         : "cannot be compared with the shards' factors, which are written in "
                           "another type of its width";
}

/// The gathered file, where there is one that is not itself what is merged.
std::optional<fs::path> gathered_file(const Planned& planned) {
    const fs::path directory = fs::path(planned.model.files.adapter_config.path).parent_path();
    const auto& files = planned.input.files;
    const bool is_input =
        directory.lexically_normal() == planned.input.directory.lexically_normal() &&
        std::ranges::count(files, kGathered, &catalogue::File::path) > 0;
    const fs::path path = directory / kGathered;
    return is_input || !io::is_file(path) ? std::nullopt : std::optional(path);
}

std::string finding(const Planned& planned, const fs::path& written) {
    const auto path = gathered_file(planned);
    if (!path) {
        return "";
    }
    std::string found;
    try {
        found = difference(Factors(*path), Factors(written));
    } catch (const Error& error) {
        found = std::string("cannot be compared with the shards' factors: ") + error.what();
    }
    return found.empty() ? "" : path->string() + " " + found;
}

}  // namespace

std::vector<plan::Warning> stale_adapter(Session& session, const Planned& planned,
                                         const fs::path& written) {
    const std::string text =
        mpi::share(session.comm, planned.input.home, [&] { return finding(planned, written); });
    return text.empty() ? std::vector<plan::Warning>()
                        : std::vector{plan::Warning{"adapter_stale", "", text}};
}

}  // namespace shardweld::app
