#include "join_ranks.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "catalogue/catalogue.hpp"
#include "core/text.hpp"
#include "formats/shared/directory_listing.hpp"
#include "formats/shared/file_scan.hpp"
#include "formats/shared/hints.hpp"
#include "formats/shared/replicas.hpp"
#include "shardweld/error.hpp"

namespace shardweld::formats::fsdp {

namespace {

using catalogue::Catalogue;
using catalogue::Tensor;

/// A name's parts in all files.
struct NamedParts {
    bool is_plain = false;
    Tensor tensor;                     ///< of a plain one: dtype alone counts
    std::vector<std::uint32_t> files;  ///< ascending
};

std::string placement_of(const Tensor& tensor) {
    return tensor.placement.empty() ? "a ShardedTensor" : tensor.placement;
}

class RankJoiner {
  public:
    RankJoiner(const std::vector<std::string>& missing, Catalogue& out)
        : missing_(missing), out_(out) {}

    void add(RankScan of_rank) {
        Catalogue& scan = of_rank.told;
        const std::uint32_t file = join_scan(scan, ignored_, out_);
        for (Tensor& tensor : scan.tensors) {
            add_tensor(std::move(tensor), file, false);
        }
        for (catalogue::Shard& shard : scan.shards) {
            add_tensor({shard.name, shard.dtype, {}, {}}, file, true);
            out_.shards.push_back(std::move(shard));
        }
    }

    void finish() {
        drop_empty_shards();
        const bool is_on_first_only = only_first_holds_plain();
        bool has_global = false;
        for (auto& [name, entry] : entries_) {
            has_global = has_global || !entry.is_plain;
            if (entry.is_plain) {
                if (!is_on_first_only) {
                    require_everywhere(entry);
                }
            } else {
                settle(entry);
            }
        }
        if (!has_global && !missing_.empty()) {
            throw Error(ErrorCode::not_found, missing_text(), kCopyAll);
        }
        if (is_on_first_only || out_.files.size() + missing_.size() == 1) {
            shards_to_tensors();
        }
        add_notes(is_on_first_only && out_.files.size() > 1);
        out_.ignored = ignored_.take();
    }

  private:
    [[nodiscard]] std::string path(std::uint32_t file) const {
        return printable(out_.files[file].path);
    }

    void add_tensor(Tensor tensor, std::uint32_t file, bool is_plain) {
        const auto [at, is_new] = entries_.try_emplace(tensor.name);
        NamedParts& entry = at->second;
        if (is_new) {
            entry = {is_plain, std::move(tensor), {file}};
            return;
        }
        require_same(entry, tensor, file, is_plain);
        entry.tensor.pieces.insert(entry.tensor.pieces.end(), tensor.pieces.begin(),
                                   tensor.pieces.end());
        entry.files.push_back(file);
    }

    void require_same(const NamedParts& entry, const Tensor& tensor, std::uint32_t file,
                      bool is_plain) const {
        const auto differ = [&](const std::string& a, const std::string& b) {
            throw Error(ErrorCode::mismatch,
                        printable(tensor.name) + " is " + a + " in " + path(entry.files.front()) +
                            " but " + b + " in " + path(file),
                        kOneSave);
        };
        const auto kind = [](bool plain) {
            return std::string(plain ? "a plain tensor" : "part of a sharded tensor");
        };
        if (entry.is_plain != is_plain) {
            differ(kind(entry.is_plain), kind(is_plain));
        }
        if (entry.tensor.dtype != tensor.dtype) {
            differ(std::string(safetensors_name(entry.tensor.dtype)),
                   std::string(safetensors_name(tensor.dtype)));
        }
        if (entry.tensor.shape != tensor.shape) {
            differ("of global shape " + shape_text(entry.tensor.shape), shape_text(tensor.shape));
        }
        if (entry.tensor.placement != tensor.placement) {
            differ("placed as " + placement_of(entry.tensor), placement_of(tensor));
        }
    }

    // The first file that an entry is not in.
    [[nodiscard]] std::optional<std::uint32_t> first_file_without(const NamedParts& entry) const {
        for (std::uint32_t file = 0; file < out_.files.size(); ++file) {
            if (file >= entry.files.size() || entry.files[file] != file) {
                return file;
            }
        }
        return std::nullopt;
    }

    void require_everywhere(const NamedParts& entry) const {
        if (const auto file = first_file_without(entry)) {
            throw Error(ErrorCode::mismatch,
                        printable(entry.tensor.name) + " is in " + path(entry.files.front()) +
                            " but not in " + path(*file),
                        kOneSave);
        }
    }

    [[nodiscard]] std::string missing_text() const {
        return std::to_string(missing_.size()) + " of " +
               std::to_string(missing_.size() + out_.files.size()) +
               " rank files are missing: " + name_list(missing_);
    }

    // Global tensors: copies numbered, every element there once.
    void settle(NamedParts& entry) {
        Tensor& tensor = entry.tensor;
        number_replicas(tensor.pieces);
        const CoverFault fault = find_cover_fault(tensor);
        if (fault.kind == Cover::Kind::gap) {
            if (!missing_.empty()) {
                throw Error(ErrorCode::not_found, missing_text(), kCopyAll)
                    .add_context("tensor " + printable(tensor.name) + ", elements " + fault.text);
            }
            require_everywhere(entry);
        }
        if (fault.kind != Cover::Kind::exact) {
            const bool is_gap = fault.kind == Cover::Kind::gap;
            const bool is_overlap = fault.kind == Cover::Kind::overlap;
            throw Error(
                is_gap || is_overlap ? ErrorCode::mismatch : ErrorCode::unsupported,
                printable(tensor.name) + " of shape " + shape_text(tensor.shape) +
                    (is_gap       ? ": no rank holds the elements "
                     : is_overlap ? ": " + path(fault.first_file) + " and " +
                                        path(fault.second_file) + " hold parts that overlap: "
                                  : ": too many parts that form no grid") +
                    fault.text,
                "if the mesh in the files is wrong, say it by hand: --mesh_dim_names and "
                "--mesh_shape");
        }
        n_incomplete_ += first_file_without(entry) ? 1 : 0;
        out_.tensors.push_back(std::move(tensor));
    }

    // Empty on all ranks: nothing to join.
    void drop_empty_shards() {
        std::map<std::string_view, Index> volumes;
        for (const catalogue::Shard& shard : out_.shards) {
            Index& most = volumes[shard.name];
            most = std::max(most, volume_of(shard.shape, "a tensor's shape"));
        }
        for (const auto& [name, volume] : volumes) {
            if (volume == 0) {
                entries_.erase(std::string(name));
                ignored_.add({printable(name), "empty tensor"}, 1, 0);
            }
        }
        std::vector<catalogue::Shard> kept;
        for (catalogue::Shard& shard : out_.shards) {
            if (entries_.contains(shard.name)) {
                kept.push_back(std::move(shard));
            }
        }
        out_.shards = std::move(kept);
    }

    // FSDP1's FULL_STATE_DICT: whole tensors on rank 0, nothing elsewhere.
    [[nodiscard]] bool only_first_holds_plain() const {
        return std::all_of(entries_.begin(), entries_.end(), [](const auto& named) {
            return named.second.is_plain && named.second.files == std::vector<std::uint32_t>{0};
        });
    }

    void shards_to_tensors() {
        for (catalogue::Shard& shard : out_.shards) {
            out_.tensors.push_back(
                {std::move(shard.name), shard.dtype, std::move(shard.shape), {shard.piece}});
        }
        out_.shards.clear();
        std::sort(out_.tensors.begin(), out_.tensors.end(),
                  [](const Tensor& a, const Tensor& b) { return a.name < b.name; });
    }

    void add_notes(bool is_on_first_only) {
        if (is_on_first_only) {
            out_.notes.emplace_back(
                "only the first rank's file holds tensors: they are taken as "
                "whole");
        }
        if (!missing_.empty()) {
            out_.warnings["replica_absent"] =
                missing_text() + " (not needed: the others hold every element)";
        }
        if (n_incomplete_ > 0) {
            out_.warnings["tensor_not_everywhere"] =
                std::to_string(n_incomplete_) +
                " tensor(s) are not in every rank's file; the others hold all their elements";
        }
    }

    const std::vector<std::string>& missing_;
    Catalogue& out_;
    std::map<std::string, NamedParts> entries_;
    IgnoredRows ignored_;
    Index n_incomplete_ = 0;
};

}  // namespace

void join_ranks(std::vector<RankScan> scans, const std::vector<std::string>& missing,
                Catalogue& out) {
    RankJoiner join(missing, out);
    add_each(std::move(scans), join);
    join.finish();
}

}  // namespace shardweld::formats::fsdp
