// Training checkpoints as outputs: files of torch.save, one a rank, and directories of
// torch.distributed.checkpoint.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/index.hpp"
#include "core/shared_list.hpp"
#include "core/shared_text.hpp"

#include "format.hpp"

namespace shardweld::outputs {

/// A tensor as a training checkpoint stores it: a box of a whole tensor, in one file.
struct TrainingTensor {
    SharedText file;  ///< below the output's directory
    /// Keys of the dictionaries that lead to it in the file's pickle, outermost first, its own name
    /// last: {"model", "decoder.final_layernorm.weight"}. In a directory of DCP they are joined
    /// with dots to its key; tensors of one key are chunks of one. Where one has several,
    /// planner_data tells the paths of all, as torch's own planner does. None: the file is the
    /// tensor.
    SharedList<SharedText> path;
    SharedList<Index> whole;  ///< shape of the whole tensor; of rank files without a mesh not told
    /// dcp: of the box in it; its extents are the written tensor's shape.
    SharedList<Index> offsets;
    bool is_plain = false;   ///< among DTensors a plain tensor: a buffer, whole on every rank
    std::int32_t order = 0;  ///< in its file; those of one stand as they come
};

/// numbered: a dictionary whose keys count its items from 0.
enum class PlainKind { none, boolean, integer, real, text, list, dictionary, numbered };

/// A value beside the tensors: what a pickle can hold without a class of a framework.
struct PlainValue {
    struct Entry;  // no std::pair, which asks about this type while it is not whole yet

    PlainKind kind = PlainKind::none;
    std::int64_t integer = 0;  ///< of a boolean 0 or 1
    double real = 0;
    std::string text;
    std::vector<PlainValue> items;  ///< of a list, or of numbered
    std::vector<Entry> entries;     ///< of a dictionary, in order
};

struct PlainValue::Entry {
    std::string key;
    PlainValue value;
};

/// The device mesh over which DTensors are spread: the last dim cuts rows, dims before it repeat.
struct DeviceMesh {
    std::vector<std::string> names;
    std::vector<Index> shape;
    /// A loader's own mesh is the same only if it is of such devices.
    std::string device_type = "cuda";
    /// As torch 2.4 to 2.8 pickle it, a tensor of ranks; else as torch 2.15, strides over a list of
    /// ranks. One generation cannot use the other's.
    bool is_of_ranks = false;
};

/// A whole training checkpoint.
struct TrainingSave {
    bool is_dcp = false;  ///< .metadata and blobs in .distcp files; else an archive for each file
    std::vector<TrainingTensor> tensors;  ///< in the order of those that `place` is given
    /// In their order, also those without tensors; with a mesh those of all ranks, once or more.
    /// Others that tensors or `beside` name follow in natural order.
    std::vector<std::string> files = {};
    /// By file, what its top dictionary has before the tensors. In a save of DCP these files are
    /// archives of torch.save beside it, without tensors (common.pt).
    std::map<std::string, PlainValue> beside = {};
    std::vector<DeviceMesh> mesh = {};  ///< no DCP: one; tensors are DTensors, Shard(0), over it
    std::string directory = {};         ///< dcp: of .metadata, below the output's
    std::map<std::string, PlainValue> objects =
        {};  ///< dcp: byte objects by key, pickled in a list of one, in the first file
    /// dcp: the same as torch's own planner has them, pickled as they are. The paths of their keys
    /// are in `object_paths`.
    std::map<std::string, PlainValue> bare_objects = {};
    /// Elements of paths that are decimal numbers are numbers.
    std::map<std::string, SharedList<SharedText>> object_paths = {};
    /// No DCP: keys of the dictionary of this name, which lies at the top, are numbers.
    std::string numbered = {};
    std::map<std::string, std::string> archives =
        {};  ///< dcp: byte objects by key, as torch.save wrote them elsewhere
    std::vector<SideFile> side_files = {};
};

/// Writes such checkpoints: every byte but the tensors' and their checksums' is settled by `place`.
/// Archives are stored zips without times; keys stand in the order in which tensors come, behind
/// those of values. Every dtype can be written; which torch knows it is another question.
/// Error(internal) for tensors that `save` has no place for, or one that another has, and for
/// chunks of one tensor that disagree about it.
std::shared_ptr<const OutputFormat> training_format_of(TrainingSave save);

}  // namespace shardweld::outputs
