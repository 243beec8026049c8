// What --to says: the form of the checkpoint that is written, and how many ranks will hold it.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "core/index.hpp"

namespace shardweld::reshape {

/// The forms of training checkpoint that are written.
enum class Form { hf, torch_dist, legacy, fsdp, dcp, universal, same, like };

/// A training run's ranks, as Megatron-LM's options say.
struct ParallelSizes {
    Index tp = 1;
    Index pp = 1;
    Index vpp = 0;  ///< chunks of layers a pipeline rank; 0: not given
    Index ep = 1;
    Index etp = 0;       ///< 0: not given, as tp
    Index first = 0;     ///< layers of the first pipeline rank; 0: as many as others
    Index last = 0;      ///< likewise of the last one
    std::string layout;  ///< as --pipeline-model-parallel-layout; "": not given

    [[nodiscard]] Index chunks() const { return vpp == 0 ? 1 : vpp; }
    [[nodiscard]] Index expert_tp() const { return etp == 0 ? tp : etp; }
};

/// A training checkpoint to write: its form and parallel sizes.
struct Destination {
    Form form = Form::hf;
    bool has_local_names = false;      ///< spec=local: megatron-core's own layers, else TE's
    bool has_separate_layers = false;  ///< layers=separate: a tensor for each, never stacked
    bool has_single_experts = false;   ///< experts=sequential
    bool has_common_object = false;    ///< era=019: the common state lies in the .distcp files
    ParallelSizes sizes;               ///< of legacy
    Index world = 1;                   ///< fsdp, dcp: ranks
    Index ddp = 1;                     ///< fsdp: groups of ranks that each hold the whole model
    std::string device = "cuda";       ///< fsdp: of the loader's mesh
    bool has_rank_meshes = false;      ///< fsdp: torch=2.8, which pickles a mesh as ranks
    std::string model;                 ///< like: the checkpoint that is the template
};

/// Reads "legacy:tp=8,pp=4,layout=Ettt|t|tt|L". A comma inside of layout belongs to it, as those of
/// Megatron-LM do. Behind "like:" stands a path. Error(usage) naming what is unknown, no number in
/// its range, or does not go together.
Destination parse_destination(std::string_view text);

/// Whether a checkpoint's form is called so, without its options.
bool is_form(std::string_view name);

/// The template's directory, where `text` is "like:" and that; "" otherwise.
std::string template_in(std::string_view text);

/// What the dialect's symbols are told of the run that will read the checkpoint (t, te, tp...).
std::map<std::string, Index> facts_of(const Destination& destination);

/// Rows of a vocabulary as Megatron fills them up: to a multiple of `divisor` for each of tp ranks.
Index padded_vocab(Index vocab, Index tp, Index divisor = 128);

}  // namespace shardweld::reshape
