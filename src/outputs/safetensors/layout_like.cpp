#include "outputs/layout_like.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "core/weight_map.hpp"

#include "header.hpp"

namespace shardweld::outputs {

namespace {

constexpr std::string_view kEnding = ".safetensors";
constexpr std::string_view kDefaultIndex = "model.safetensors.index.json";

/// Where the reference has a tensor: its file, and which one of it.
struct ReferencePlace {
    std::size_t file = 0;
    std::size_t at = 0;
};

using Places = std::map<std::string_view, ReferencePlace>;

Places places_of(const ReferenceLayout& reference) {
    Places places;
    for (std::size_t file = 0; file < reference.files.size(); ++file) {
        const auto& tensors = reference.files[file].tensors;
        for (std::size_t at = 0; at < tensors.size(); ++at) {
            places.emplace(tensors[at].name, ReferencePlace{file, at});
        }
    }
    return places;
}

bool is_same(const OutputTensor& tensor, const ReferenceTensor& reference) {
    return tensor.name == reference.name && tensor.dtype == reference.dtype &&
           tensor.shape == reference.shape;
}

/// Whether these are the reference's tensors, all of them and in its order, with its header.
bool is_kept_header(const std::vector<OutputTensor>& tensors,
                    const std::vector<std::uint32_t>& order, const ReferenceFile& reference) {
    return !reference.header.empty() &&
           std::ranges::equal(order, reference.tensors,
                              [&](std::uint32_t at, const ReferenceTensor& other) {
                                  return is_same(tensors[at], other);
                              });
}

/// Loaders look at elements in place, which begin at multiples of their size.
void align_elements(const std::vector<OutputTensor>& tensors, std::vector<std::uint32_t>& order) {
    Bytes offset = 0;
    const bool is_aligned = std::ranges::all_of(order, [&](std::uint32_t at) {
        const Bytes begin = offset;
        offset = checked_add_bytes(offset, tensors[at].bytes(), "an output file");
        return begin % size_of(tensors[at].dtype) == 0;
    });
    if (!is_aligned) {
        std::ranges::stable_sort(order, [&](std::uint32_t a, std::uint32_t b) {
            return size_of(tensors[a].dtype) > size_of(tensors[b].dtype);
        });
    }
}

/// The tensors of each of the reference's files, in its order, and those of none.
struct Sorted {
    std::vector<std::vector<std::uint32_t>> files;
    std::vector<std::uint32_t> rest;
};

/// A tensor that is made with the one before it lies in that one's file.
Sorted sort_by_files(const std::vector<OutputTensor>& tensors, const ReferenceLayout& reference) {
    const Places places = places_of(reference);
    const std::size_t n_files = reference.files.size();
    std::vector<std::vector<std::pair<std::size_t, std::uint32_t>>> files(n_files);
    Sorted sorted;
    std::size_t last = n_files;
    for (std::uint32_t at = 0; at < tensors.size(); ++at) {
        const auto found = places.find(tensors[at].name);
        const bool is_known = found != places.end();
        if (!tensors[at].is_made_with_last) {
            last = is_known ? found->second.file : n_files == 1 ? 0 : n_files;
        }
        if (last == n_files) {
            sorted.rest.push_back(at);
            continue;
        }
        const bool has_place = is_known && found->second.file == last;
        files[last].emplace_back(
            has_place ? found->second.at : reference.files[last].tensors.size(), at);
    }
    for (auto& file : files) {
        std::ranges::stable_sort(file, {}, &std::pair<std::size_t, std::uint32_t>::first);
        auto& order = sorted.files.emplace_back();
        std::ranges::transform(file, std::back_inserter(order),
                               &std::pair<std::size_t, std::uint32_t>::second);
    }
    return sorted;
}

/// "model-extra", which none of the reference's files is called by.
std::string extra_stem(const ReferenceLayout& reference) {
    std::string stem = "model-extra";
    const auto is_taken = [&](const ReferenceFile& file) { return file.name.starts_with(stem); };
    for (int n = 2; std::ranges::any_of(reference.files, is_taken); ++n) {
        stem = "model-extra" + std::to_string(n);
    }
    return stem;
}

/// Whether an index says where these tensors are.
bool is_true(const WeightMap& map, const std::vector<OutputTensor>& tensors,
             const Placement& placement) {
    return map.file_of.size() == tensors.size() &&
           std::ranges::all_of(tensors, [&](const OutputTensor& tensor) {
               const auto at = static_cast<std::size_t>(&tensor - tensors.data());
               const auto found = map.file_of.find(tensor.name);
               return found != map.file_of.end() &&
                      map.file(found->second) == placement.files[placement.slots[at].file].name;
           });
}

class LikeReference final : public Format {
  public:
    explicit LikeReference(std::shared_ptr<const ReferenceLayout> reference)
        : reference_(std::move(reference)) {}

    [[nodiscard]] std::string_view name() const override { return safetensors_format().name(); }
    [[nodiscard]] std::vector<std::string_view> endings() const override { return {kEnding}; }
    [[nodiscard]] bool takes_adapter() const override { return true; }

    [[nodiscard]] Placement place(const std::vector<OutputTensor>& tensors,
                                  Bytes max_shard_size) const override {
        std::ranges::for_each(tensors,
                              [](const OutputTensor& tensor) { require_header_name(tensor.name); });
        Placement placement;
        placement.format = this;
        placement.slots.resize(tensors.size());
        Sorted sorted = sort_by_files(tensors, *reference_);
        bool is_kept = true;
        for (std::size_t at = 0; at < reference_->files.size(); ++at) {
            is_kept &= add_file(placement, tensors, std::move(sorted.files[at]),
                                reference_->files[at].name, &reference_->files[at]);
        }
        is_kept &= sorted.rest.empty();
        add_rest(placement, tensors, sorted.rest, max_shard_size);
        add_index(placement, tensors, is_kept);
        return placement;
    }

  private:
    /// Whether its header is the reference's. Without tensors there is no file.
    static bool add_file(Placement& placement, const std::vector<OutputTensor>& tensors,
                         std::vector<std::uint32_t> order, const std::string& name,
                         const ReferenceFile* reference) {
        if (order.empty()) {
            return false;
        }
        const bool is_kept = reference != nullptr && is_kept_header(tensors, order, *reference);
        if (!is_kept) {
            align_elements(tensors, order);
        }
        PlacedFile file;
        file.name = name;
        file.header = is_kept ? reference->header : header_of(tensors, order);
        file.size = file.header.size();
        file.tensors = std::move(order);
        for (const std::uint32_t at : file.tensors) {
            placement.slots[at].file = static_cast<std::uint32_t>(placement.files.size());
            placement.tensor_bytes += tensors[at].bytes();
        }
        put_in_order(placement, file, tensors);
        placement.files.push_back(std::move(file));
        return is_kept;
    }

    /// What the reference lacks, in files of its own.
    void add_rest(Placement& placement, const std::vector<OutputTensor>& tensors,
                  const std::vector<std::uint32_t>& rest, Bytes limit) const {
        if (rest.empty()) {
            return;
        }
        std::vector<OutputTensor> extra;
        std::ranges::transform(rest, std::back_inserter(extra),
                               [&](std::uint32_t at) { return tensors[at]; });
        for (const PlacedFile& packed :
             pack(extra, limit, kEnding, extra_stem(*reference_)).files) {
            std::vector<std::uint32_t> order;
            std::ranges::transform(packed.tensors, std::back_inserter(order),
                                   [&](std::uint32_t at) { return rest[at]; });
            add_file(placement, tensors, std::move(order), packed.name, nullptr);
        }
    }

    void add_index(Placement& placement, const std::vector<OutputTensor>& tensors,
                   bool is_kept) const {
        const std::optional<SideFile>& index = reference_->index;
        if (!index && placement.files.size() < 2) {
            return;
        }
        if (index) {
            const WeightMap map = parse_weight_map(index->text, index->name);
            const bool has_size = is_kept || map.total_size.value_or(placement.tensor_bytes) ==
                                                 placement.tensor_bytes;
            if (has_size && is_true(map, tensors, placement)) {
                placement.side_files.push_back(*index);
                return;
            }
        }
        placement.side_files.push_back(
            {index ? index->name : std::string(kDefaultIndex), index_text(tensors, placement)});
    }

    std::shared_ptr<const ReferenceLayout> reference_;
};

/// Takes a tensor's name out of those that the model lacks; says how it differs.
void compare(const OutputTensor& tensor, const ReferenceLayout& reference, Places& lacking,
             LayoutAgreement& found) {
    const auto place = lacking.find(tensor.name);
    if (place == lacking.end()) {
        found.extra.push_back(tensor.name);
        return;
    }
    const ReferenceTensor& other = reference.files[place->second.file].tensors[place->second.at];
    if (tensor.shape != other.shape) {
        found.shapes.push_back(tensor.name);
    } else if (tensor.dtype != other.dtype) {
        found.own_dtype = found.own_dtype.value_or(tensor.dtype);
        found.their_dtype = found.their_dtype.value_or(other.dtype);
        found.dtypes.push_back(tensor.name);
    }
    lacking.erase(place);
}

}  // namespace

std::shared_ptr<const Format> format_like(std::shared_ptr<const ReferenceLayout> reference) {
    return std::make_shared<const LikeReference>(std::move(reference));
}

LayoutAgreement agreement(const ReferenceLayout& reference,
                          const std::vector<OutputTensor>& tensors, const Placement& placement) {
    LayoutAgreement found;
    std::set<std::string_view> written;
    Places lacking = places_of(reference);
    for (const PlacedFile& file : placement.files) {
        if (file.name.find('/') != std::string::npos) {
            continue;  // an adapter's
        }
        written.insert(file.name);
        const auto theirs = std::ranges::find(reference.files, file.name, &ReferenceFile::name);
        const bool is_kept =
            theirs != reference.files.end() && is_kept_header(tensors, file.tensors, *theirs);
        (is_kept ? found.kept : found.own).push_back(file.name);
        for (const std::uint32_t at : file.tensors) {
            compare(tensors[at], reference, lacking, found);
        }
    }
    for (const ReferenceFile& file : reference.files) {
        if (!written.contains(file.name)) {
            found.unwritten.push_back(file.name);
        }
    }
    for (const auto& [name, place] : lacking) {
        found.lacking.emplace_back(name);
    }
    found.has_common = found.lacking.size() < places_of(reference).size();
    return found;
}

}  // namespace shardweld::outputs
