#include "dcp_views.hpp"

#include <algorithm>
#include <span>
#include <string>

#include "core/text.hpp"
#include "shardweld/error.hpp"

namespace shardweld::formats {

namespace {

bool is_before(std::span<const Index> a, std::span<const Index> b) {
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
}

StoredTensor read_view(std::string_view pickle, Bytes length) {
    const auto bytes = std::as_bytes(std::span(pickle));
    const TorchFile file = TorchFile::read_bare({bytes.begin(), bytes.end()}, length);
    if (auto view = file.tensor(file.root())) {
        return std::move(*view);
    }
    bad_metadata("all_tensor_metadata holds something that is not a tensor");
}

}  // namespace

DcpViews::DcpViews(const PickleValue& root, DcpRecords& records) : records_(records) {
    const PickleValue* const all = root.attribute("all_tensor_metadata");
    if (all == nullptr) {
        return;
    }
    if (!all->is_mapping()) {
        bad_metadata("all_tensor_metadata is no dictionary");
    }
    has_views_ = true;
    for (std::size_t i = 0; i < all->pair_count(); ++i) {
        const PickleValue& pickle = all->value(i);
        if (pickle.kind == PickleKind::bytes) {  // byte objects have none
            const std::uint32_t key = records.key_number(all->key(i));
            entries_[records.key(key).name].push_back({key, pickle.text()});
        }
    }
    for (auto& [name, entries] : entries_) {
        std::sort(entries.begin(), entries.end(), [this](const Entry& a, const Entry& b) {
            return is_before(records_.key(a.key).at, records_.key(b.key).at);
        });
    }
}

std::string_view DcpViews::pickle_of(const DcpTensor& tensor, const DcpChunk& chunk) const {
    const auto found = entries_.find(tensor.name);
    if (found != entries_.end()) {
        const auto at =
            std::lower_bound(found->second.begin(), found->second.end(), chunk.offsets,
                             [this](const Entry& entry, std::span<const Index> offsets) {
                                 return is_before(records_.key(entry.key).at, offsets);
                             });
        if (at != found->second.end() &&
            std::ranges::equal(records_.key(at->key).at, chunk.offsets)) {
            return at->pickle;
        }
    }
    bad_metadata("tensor '" + printable(tensor.name) + "': the chunk at " +
                 shape_text(chunk.offsets) + " is not in all_tensor_metadata");
}

std::uint32_t DcpViews::number_of(std::string_view pickle, Bytes length) {
    const auto [at, is_new] =
        numbers_.try_emplace({pickle, length}, static_cast<std::uint32_t>(views_.size()));
    if (is_new) {
        views_.push_back(read_view(pickle, length));
    }
    return at->second;
}

void DcpViews::place(DcpTensor& tensor) {
    if (!has_views_) {
        return;
    }
    try {
        for (DcpChunk& chunk : tensor.chunks) {
            chunk.view = number_of(pickle_of(tensor, chunk), chunk.length);
            const StoredTensor& view = views_[chunk.view];
            if (view.dtype != tensor.dtype || !std::ranges::equal(view.shape, chunk.sizes)) {
                bad_metadata("the chunk at " + shape_text(chunk.offsets) + " is " +
                             std::string(torch_name(tensor.dtype)) + " of shape " +
                             shape_text(chunk.sizes) + ", but by all_tensor_metadata " +
                             std::string(torch_name(view.dtype)) + " of shape " +
                             shape_text(view.shape));
            }
        }
    } catch (Error& error) {
        error.add_context("tensor " + printable(tensor.name));
        throw;
    }
}

}  // namespace shardweld::formats
