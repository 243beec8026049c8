#include "base_model.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "shardweld/adapters/separate.hpp"
#include "shardweld/catalogue/catalogue.hpp"
#include "shardweld/core/error.hpp"

#include "framework_adapter.hpp"

namespace shardweld::app {

namespace {

/// Ranks that see the same of both stay together.
plan::Visibility seen_by_both(const plan::Visibility& a, const plan::Visibility& b) {
    plan::Visibility both;
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> groups;
    for (std::size_t rank = 0; rank < a.group_of_rank.size(); ++rank) {
        const std::pair key{a.group_of_rank[rank], b.group_of_rank[rank]};
        const auto [at, is_new] =
            groups.try_emplace(key, static_cast<std::uint32_t>(groups.size()));
        if (is_new) {
            std::vector<bool> sees = a.group_sees[key.first];
            const std::vector<bool>& more = b.group_sees[key.second];
            sees.insert(sees.end(), more.begin(), more.end());
            both.group_sees.push_back(std::move(sees));
        }
        both.group_of_rank.push_back(at->second);
    }
    return both;
}

}  // namespace

bool is_base_of_adapter(const Options& options, Destination sink,
                        const catalogue::Catalogue& checkpoint) {
    if (!options.base) {
        return false;
    }
    const bool is_adapter = adapters::holds_adapter_only(checkpoint);
    if (!is_adapter && sink == Destination::comparison) {
        throw Error(ErrorCode::usage,
                    "test takes --base only for checkpoints that hold nothing but a LoRA adapter: "
                    "this one has its own base",
                    "compare with another model by --test_hf_dir");
    }
    return is_adapter;
}

formats::InputRequest base_request(const Options& options) {
    formats::InputRequest request;
    request.directory = *options.base;
    request.backend = "hf";
    request.wants_model = true;
    request.check_crc = options.check_crc != CheckCrc::off;
    return request;
}

void add_base(catalogue::Catalogue& checkpoint, const fs::path& directory,
              catalogue::Catalogue base) {
    if (base.dialect != checkpoint.dialect && !holds_framework_adapter(checkpoint)) {
        throw Error(ErrorCode::unsupported, "--base is a " + base.format + " model",
                    "give the HuggingFace model that the adapter was trained on");
    }
    const auto first_file = static_cast<std::uint32_t>(checkpoint.files.size());
    for (catalogue::File& file : base.files) {
        checkpoint.files.push_back({(fs::absolute(directory) / file.path).string(), file.size});
    }
    for (catalogue::Tensor& tensor : base.tensors) {
        for (catalogue::Piece& piece : tensor.pieces) {
            piece.file += first_file;
        }
        checkpoint.tensors.push_back(std::move(tensor));
    }
    for (catalogue::Shard& shard : base.shards) {
        shard.piece.file += first_file;
        checkpoint.shards.push_back(std::move(shard));
    }
    std::move(base.notes.begin(), base.notes.end(), std::back_inserter(checkpoint.notes));
    std::move(base.ignored.begin(), base.ignored.end(), std::back_inserter(checkpoint.ignored));
    std::stable_sort(checkpoint.tensors.begin(), checkpoint.tensors.end(),
                     [](const auto& a, const auto& b) { return a.name < b.name; });
}

void add_base(Survey& checkpoint, Survey base) {
    add_base(checkpoint.catalogue, base.location.directory, std::move(base.catalogue));
    checkpoint.visibility = seen_by_both(checkpoint.visibility, base.visibility);
    checkpoint.digests.insert(checkpoint.digests.end(), base.digests.begin(), base.digests.end());
    checkpoint.stamps.insert(checkpoint.stamps.end(), base.stamps.begin(), base.stamps.end());
}

}  // namespace shardweld::app
