#include "join.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "core/text.hpp"
#include "formats/shared/adam.hpp"
#include "formats/shared/assembler.hpp"
#include "formats/shared/directory_listing.hpp"
#include "formats/shared/hints.hpp"
#include "shardweld/error.hpp"

#include "rank_files.hpp"

namespace shardweld::formats::fsdp {

namespace {

constexpr const char* kMeshHint =
    "if the mesh in the files is wrong, say it by hand: --mesh_dim_names and --mesh_shape";
/// The scans of rank files, in the order of ranks, become the tensors, shards, files and ignored
/// rows of `out`. `missing`: names of the rank files that are not there; they are forgiven with a
/// note when the others hold every element. Boxes that several ranks hold are replicas, the lowest
/// rank's comes first. Error(not_found) when a missing file is needed; Error(mismatch) when ranks
/// disagree on a tensor's dtype, shape or kind, one lacks it, or its pieces overlap or leave
/// elements out.
class JoinedRanks {
  public:
    JoinedRanks(const std::vector<std::string>& missing, Catalogue& out)
        : missing_(missing), out_(out), all_(out, {.cover_hint = kMeshHint}) {}

    void add(RankScan of_rank) {
        Catalogue& scan = of_rank.told;
        const std::uint32_t file = all_.add_scan(scan);
        for (Tensor& tensor : scan.tensors) {
            all_.add(std::move(tensor), file);
        }
        for (Shard& shard : scan.shards) {
            all_.add({shard.name, shard.dtype, {}, {}}, file, true);
            out_.shards.push_back(std::move(shard));
        }
    }

    void finish() {
        drop_empty_shards();
        const bool is_on_first_only = only_first_holds_plain();
        bool has_global = false;
        for (auto& [name, entry] : all_.tensors) {
            has_global = has_global || !entry.is_shard;
            if (!entry.is_shard) {
                number_copies(entry);
            } else if (!is_on_first_only) {
                require_everywhere(entry);
            }
        }
        if (!has_global && !missing_.empty()) {
            throw files_missing(missing_text());
        }
        std::erase_if(all_.tensors, [](const auto& named) { return named.second.is_shard; });
        if (is_on_first_only || out_.files.size() + missing_.size() == 1) {
            shards_to_tensors();
        }
        all_.finish();
        add_notes(is_on_first_only && out_.files.size() > 1);
    }

  private:
    [[nodiscard]] std::string path(std::uint32_t file) const {
        return printable(out_.files[file].path);
    }

    // The first file that an entry is not in.
    [[nodiscard]] std::optional<std::uint32_t> first_file_without(const Assembled& entry) const {
        for (std::uint32_t file = 0; file < out_.files.size(); ++file) {
            if (file >= entry.files.size() || entry.files[file] != file) {
                return file;
            }
        }
        return std::nullopt;
    }

    void require_everywhere(const Assembled& entry) const {
        if (const auto file = first_file_without(entry)) {
            throw mixed_saves_error(printable(entry.tensor.name) + " is in " +
                                    path(entry.files.front()) + " but not in " + path(*file));
        }
    }

    [[nodiscard]] std::string missing_text() const {
        return std::to_string(missing_.size()) + " of " +
               std::to_string(missing_.size() + out_.files.size()) +
               " rank files are missing: " + name_list(missing_);
    }

    // Global tensors: copies numbered, every element there once.
    void number_copies(Assembled& entry) {
        Tensor& tensor = entry.tensor;
        number_replicas(tensor.pieces);
        const CoverFault fault = find_cover_fault(tensor);
        if (fault.kind == CoverKind::gap) {
            if (!missing_.empty()) {
                throw files_missing(missing_text())
                    .add_context("tensor " + printable(tensor.name) + ", elements " + fault.where);
            }
            require_everywhere(entry);
        }
        all_.require_cover(tensor, fault);
        n_incomplete_ += first_file_without(entry) ? 1U : 0U;
    }

    // Empty on all ranks: nothing to join.
    void drop_empty_shards() {
        std::map<std::string_view, Index> volumes;
        for (const Shard& shard : out_.shards) {
            Index& most = volumes[shard.name];
            most = std::max(most, volume_of(shard.shape, "a tensor's shape"));
        }
        for (const auto& [name, volume] : volumes) {
            if (volume == 0) {
                all_.tensors.erase(std::string(name));
                all_.ignored().add({printable(name), "empty tensor"}, 1, 0);
            }
        }
        std::erase_if(out_.shards,
                      [&](const Shard& shard) { return !all_.tensors.contains(shard.name); });
    }

    // FSDP1's FULL_STATE_DICT: whole tensors on rank 0, nothing elsewhere.
    [[nodiscard]] bool only_first_holds_plain() const {
        return std::ranges::all_of(all_.tensors, [](const auto& named) {
            return named.second.is_shard && named.second.files == std::vector<std::uint32_t>{0};
        });
    }

    void shards_to_tensors() {
        for (Shard& shard : std::exchange(out_.shards, {})) {
            all_.add({shard.name, shard.dtype, std::move(shard.shape), {shard.piece}}, 0);
        }
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
                counted(n_incomplete_, "tensor") + " " + verb_of(n_incomplete_, "is", "are") +
                " not in every rank's file; the others hold all their elements";
        }
    }

    const std::vector<std::string>& missing_;
    Catalogue& out_;
    Assembler all_;
    std::size_t n_incomplete_ = 0;
};

/// Part of a tensor: number of the tensor, bytes and CRC-32 of the storage.
using PartContent = std::tuple<std::size_t, Bytes, std::uint32_t>;

// Ones and zeros fill many tensors, and so does a constant; contents of one size that differ so
// often come from training.
constexpr std::size_t kLeastContents = 4;

std::vector<std::vector<PartContent>> parts_of_files(const Catalogue& catalogue) {
    std::vector<std::vector<PartContent>> parts(catalogue.files.size());
    for (const std::size_t t : indices(catalogue.tensors)) {
        const Tensor& tensor = catalogue.tensors[t];
        for (const Piece& piece : tensor.pieces) {
            if (piece.replica == 0 && tensor.pieces.size() > 1) {
                parts.at(piece.file).emplace_back(t, piece.storage_bytes, piece.crc32);
            }
        }
    }
    return parts;
}

bool are_distinctive(const std::vector<PartContent>& parts) {
    std::map<Bytes, std::set<std::uint32_t>> contents;
    bool is_stated = true;
    for (const auto& [tensor, bytes, crc32] : parts) {
        is_stated = is_stated && crc32 != 0;
        contents[bytes].insert(crc32);
    }
    return is_stated && std::ranges::any_of(contents, [](const auto& of_size) {
               return of_size.second.size() >= kLeastContents;
           });
}

/// Error(mismatch) naming two files that hold different parts of the same tensors, but equal bytes
/// for all of them. Models of constants, and files whose archives state no CRC-32, pass. Pure.
void refuse_copies(const Catalogue& catalogue) {
    const auto parts = parts_of_files(catalogue);
    std::map<std::vector<PartContent>, std::size_t> seen;
    for (const std::size_t file : indices(parts)) {
        const auto [at, is_new] = seen.emplace(parts[file], file);
        if (!is_new && are_distinctive(parts[file])) {
            throw Error(ErrorCode::mismatch,
                        printable(catalogue.files[at->second].path) + " and " +
                            printable(catalogue.files[file].path) +
                            " hold the same bytes for all " + std::to_string(parts[file].size()) +
                            " parts of tensors that they share",
                        "copy both again from where they were saved: one was copied over another "
                        "rank's file");
        }
    }
}

/// A state of the optimizer, joined as the model is. `missing`: files of the optimizer that are not
/// there; its files come behind the `n_model` of the model.
void join_state(const std::string& name, const std::vector<Catalogue>& told,
                const std::vector<std::string>& missing, std::size_t n_model, Catalogue& out) {
    Catalogue part;
    JoinedRanks joined(missing, part);
    for (const Catalogue& of_rank : told) {
        RankScan scan;
        scan.told.files = of_rank.files;
        if (auto* const state = find_item(of_rank.optimizer.states, name, &State::name)) {
            scan.told.tensors = state->tensors;
            scan.told.shards = state->shards;
        }
        joined.add(std::move(scan));
    }
    joined.finish();
    refuse_copies(part);
    if (out.files.size() == n_model) {
        append_all(out.files, part.files);
    }
    for (Tensor& tensor : part.tensors) {
        for (Piece& piece : tensor.pieces) {
            piece.file += static_cast<std::uint32_t>(n_model);
        }
    }
    for (Shard& shard : part.shards) {
        shard.piece.file += static_cast<std::uint32_t>(n_model);
    }
    out.optimizer.states.push_back({name, std::move(part.tensors), std::move(part.shards), {}});
}

/// The ranks' files of the optimizer. `missing`: names of the model's files that are not there.
void join_states(std::vector<Catalogue> told, const std::vector<std::string>& missing,
                 Catalogue& out) {
    std::vector<ToldOptimizer> said;
    std::vector<std::string> names;
    IgnoredRows ignored;
    ignored.add(out.ignored);
    for (Catalogue& of_rank : told) {
        take_said(of_rank, out);
        ignored.add(of_rank.ignored);
        said.push_back({of_rank.files.empty() ? "optimizer.json" : of_rank.files.front().path,
                        of_rank.optimizer});
        if (const auto states = std::exchange(said.back().optimizer.states, {}); !states.empty()) {
            names = collect_list(states, &State::name);
        }
    }
    out.ignored = ignored.rows();
    join_optimizers(Shapes::stated, std::move(said), out);
    const std::vector<std::string> missing_states =
        collect_list(missing, [](const std::string& model) { return file_beside(model, "optim"); });
    const std::size_t n_model = out.files.size();
    for (const std::string& name : names) {
        join_state(name, told, missing_states, n_model, out);
    }
    require_both_moments(out.optimizer);
}

}  // namespace

void join_files(std::vector<RankScan> scans, const std::vector<std::string>& missing,
                Catalogue& out) {
    JoinedRanks joined(missing, out);
    std::vector<Catalogue> optimizers;
    for (RankScan& scan : scans) {
        optimizers.push_back(std::move(scan.own.optimizer));
        joined.add(std::exchange(scan, {}));
    }
    joined.finish();
    refuse_copies(out);
    join_states(std::move(optimizers), missing, out);
}

}  // namespace shardweld::formats::fsdp
