// The pickles of torch's own objects: tensors, shapes, dtypes.
// Source: torch 2.15 torch/_tensor.py (_reduce_ex_internal), torch/_utils.py.
#pragma once

#include <span>

#include "core/dtype.hpp"
#include "core/index.hpp"

#include "pickle_writer.hpp"

namespace shardweld::outputs::torch {

/// A dense tensor that has the storage `key` (data/KEY in the archive) to itself.
void put_tensor(PickleWriter& out, DType dtype, std::span<const Index> shape, std::size_t key);

/// torch.Size(shape).
void put_size(PickleWriter& out, std::span<const Index> shape);

/// torch.bfloat16 and the like.
void put_dtype(PickleWriter& out, DType dtype);

/// torch.strided, as tensors with a class of their own and DCP's metadata name it.
void put_strided_layout(PickleWriter& out);

/// torch.device("cpu").
void put_cpu(PickleWriter& out);

/// collections.OrderedDict(), to be filled.
void put_ordered_dict(PickleWriter& out);

/// An object of a class, made without arguments; its state is to follow.
PickleWriter& put_object(PickleWriter& out, std::string_view module, std::string_view name);
/// The same, up to the first entry of a dictionary that is its state.
PickleWriter& begin_object(PickleWriter& out, std::string_view module, std::string_view name);

}  // namespace shardweld::outputs::torch
