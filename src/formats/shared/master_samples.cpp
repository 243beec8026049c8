#include "master_samples.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "core/text.hpp"
#include "io/input_file.hpp"
#include "layout/patch.hpp"
#include "numeric/scalar.hpp"
#include "shardweld/error.hpp"

#include "directory_listing.hpp"

namespace shardweld::formats {

namespace {

constexpr Index kMostElements = 64;

bool is_compared(DType dtype) {
    return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16;
}

Bytes bytes_of(const MasterSample& sample, const ElementPlace& place) {
    return to_bytes(sample.count, "elements") * size_of(place.dtype);
}

/// Calls visit(sample, place) for the master's elements and the weight's of each sample.
template <typename Visit>
void each_place(const MasterSamples& samples, const Visit& visit) {
    for (const MasterSample& sample : samples.all) {
        visit(sample, sample.master);
        visit(sample, sample.weight);
    }
}

/// The bits of one element.
std::uint32_t element(ByteView bytes, DType dtype, std::size_t at) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, bytes.data() + at * size_of(dtype), size_of(dtype));
    return bits;
}

std::uint32_t bits_as_f32(std::uint32_t bits, DType dtype) {
    const auto narrow = static_cast<std::uint16_t>(bits);
    return dtype == DType::bf16  ? numeric::f32_from_bf16(narrow)
           : dtype == DType::f16 ? numeric::f32_from_f16(narrow)
                                 : bits;
}

float value_of(std::uint32_t bits, DType dtype) {
    return std::bit_cast<float>(bits_as_f32(bits, dtype));
}

std::uint32_t rounded(std::uint32_t f32_bits, DType dtype) {
    return dtype == DType::bf16  ? numeric::bf16_from_f32(f32_bits)
           : dtype == DType::f16 ? numeric::f16_from_f32(f32_bits)
                                 : f32_bits;
}

/// The first of the sample's elements whose master does not round to its weight.
std::optional<std::size_t> first_unlike(const MasterSample& sample, ByteView masters,
                                        ByteView weights) {
    for (std::size_t at = 0; at < static_cast<std::size_t>(sample.count); ++at) {
        const std::uint32_t master =
            bits_as_f32(element(masters, sample.master.dtype, at), sample.master.dtype);
        const std::uint32_t weight = element(weights, sample.weight.dtype, at);
        const bool is_number = !std::isnan(std::bit_cast<float>(master));
        const bool is_alike = is_number ? rounded(master, sample.weight.dtype) == weight
                                        : std::isnan(value_of(weight, sample.weight.dtype));
        if (!is_alike) {
            return at;
        }
    }
    return std::nullopt;
}

/// "0.5 in FILE"
std::string element_text(ByteView bytes, const ElementPlace& place, std::size_t at,
                         const Catalogue& catalogue) {
    const float value = value_of(element(bytes, place.dtype, at), place.dtype);
    return formatted("%.9g", static_cast<double>(value)) + " in " +
           printable(catalogue.files[place.file].path);
}

/// Walks through the bytes that were read, which follow one another as the samples do.
class SampleReader {
  public:
    explicit SampleReader(const std::vector<Resolution>& resolutions)
        : resolutions_(resolutions), positions_(resolutions.size(), 0) {
        for (const std::size_t i : indices(resolutions)) {
            for (const std::uint32_t file : resolutions[i].files) {
                readers_[file] = i;
            }
        }
    }

    ByteView next(const MasterSample& sample, const ElementPlace& place) {
        const auto reader = readers_.find(place.file);
        const Bytes size = bytes_of(sample, place);
        if (reader == readers_.end() ||
            size > resolutions_[reader->second].samples.size() - positions_[reader->second]) {
            throw Error(ErrorCode::internal, "no rank read a sample of " + sample.name.text());
        }
        std::size_t& position = positions_[reader->second];
        position += size;
        return std::span(resolutions_[reader->second].samples).subspan(position - size, size);
    }

  private:
    const std::vector<Resolution>& resolutions_;
    std::vector<std::size_t> positions_;
    std::map<std::uint32_t, std::size_t> readers_;  // by file
};

void note_extent(const MasterSamples& samples, std::vector<std::string>& notes) {
    std::set<SharedText> names = collect_set(samples.all, &MasterSample::name);
    if (!names.empty()) {
        notes.push_back("the fp32 masters of " + counted(names.size(), "parameter") +
                        " round to the module's weights, in the first " +
                        std::to_string(kMostElements) +
                        " elements of each and of every rank's part of it");
    }
    if (!samples.without.empty()) {
        notes.push_back(
            "unchecked: the files have no weights of the module for the fp32 masters "
            "of " +
            (names.empty() ? "any parameter" : name_list(samples.without)));
    }
}

}  // namespace

std::optional<ElementPlace> place_of_elements(const Tensor& tensor) {
    if (tensor.pieces.size() != 1 || !is_compared(tensor.dtype)) {
        return std::nullopt;
    }
    const Piece& piece = tensor.pieces.front();
    if (layout::dense_shape(tensor.shape, piece.patch.offset) != piece.patch) {
        return std::nullopt;
    }
    return ElementPlace{
        piece.file, tensor.dtype,
        piece.base + to_bytes(piece.patch.offset, "elements") * size_of(tensor.dtype)};
}

bool add_sample(const std::string& name, layout::Range elements, const ElementPlace& master,
                const ElementPlace& weight, MasterSamples& samples) {
    MasterSample sample{name, elements.lo, std::min(elements.extent, kMostElements), master,
                        weight};
    sample.weight.offset += to_bytes(elements.lo, "elements") * size_of(weight.dtype);
    if (is_compared(master.dtype)) {
        samples.all.push_back(sample);
    }
    return is_compared(master.dtype);
}

Resolution read_samples(const Location& location, const Catalogue& catalogue,
                        std::span<const std::uint32_t> files,
                        const std::function<void()>& before_file) {
    Resolution out;
    out.files.assign(files.begin(), files.end());
    std::map<std::uint32_t, std::vector<std::pair<Bytes, ByteSpan>>> wanted;
    for (const std::uint32_t file : files) {
        out.sizes.push_back(catalogue.files[file].size);
        wanted[file];
    }
    Bytes total = 0;
    each_place(catalogue.samples, [&](const MasterSample& sample, const ElementPlace& place) {
        total += wanted.contains(place.file) ? bytes_of(sample, place) : 0;
    });
    out.samples.resize(total);
    ByteSpan rest = out.samples;
    each_place(catalogue.samples, [&](const MasterSample& sample, const ElementPlace& place) {
        if (auto* const at = find_value(wanted, place.file)) {
            const Bytes size = bytes_of(sample, place);
            at->emplace_back(place.offset, rest.first(size));
            rest = rest.subspan(size);
        }
    });
    for (const auto& [file, parts] : wanted) {
        before_file();
        const auto input = io::InputFile::open(location.directory / catalogue.files[file].path);
        for (const auto& [offset, bytes] : parts) {
            input.read_at(offset, bytes);
        }
    }
    return out;
}

void hold_samples(Catalogue& catalogue, const std::vector<Resolution>& resolutions) {
    SampleReader reader(resolutions);
    std::set<SharedText> known;
    std::vector<std::string> unlike;
    std::string first;  // "element 5 of x is 0.5 in FILE, but 0.25 in FILE"
    for (const MasterSample& sample : catalogue.samples.all) {
        const ByteView masters = reader.next(sample, sample.master);
        const ByteView weights = reader.next(sample, sample.weight);
        const auto at = first_unlike(sample, masters, weights);
        if (!at || !known.insert(sample.name).second) {
            continue;
        }
        unlike.push_back(sample.name.text());
        if (first.empty()) {
            first = "element " + std::to_string(sample.first + static_cast<Index>(*at)) + " of " +
                    printable(sample.name.text()) + " is " +
                    element_text(masters, sample.master, *at, catalogue) + ", but " +
                    element_text(weights, sample.weight, *at, catalogue);
        }
    }
    const MasterSamples samples = std::exchange(catalogue.samples, {});
    if (!unlike.empty()) {
        throw Error(ErrorCode::mismatch,
                    "the fp32 masters do not round to the module's weights: " + name_list(unlike) +
                        "; " + first + (samples.doubt.empty() ? "" : " (" + samples.doubt + ")"),
                    samples.remedy);
    }
    note_extent(samples, catalogue.notes);
}

}  // namespace shardweld::formats
