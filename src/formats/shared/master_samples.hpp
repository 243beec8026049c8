// fp32 masters held against the weights of the module, which they round to, in a few elements of
// each parameter: whatever names and offsets say, masters that are exchanged, shifted or of another
// step differ there.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "formats/catalogue_words.hpp"
#include "formats/format.hpp"
#include "layout/box.hpp"

namespace shardweld::formats {

/// Where a tensor begins whose elements lie in one piece, one after the other, and are of a type
/// that is compared: fp32, bf16 or fp16; nullopt of others.
std::optional<ElementPlace> place_of_elements(const Tensor& tensor);

/// Takes the first 64 of these elements of the parameter. `master` is where the first of them lies,
/// `weight` where the parameter begins. false where the master is of a type that is not compared.
bool add_sample(const std::string& name, layout::Range elements, const ElementPlace& master,
                const ElementPlace& weight, MasterSamples& samples);

/// The samples in these files, read; a step of Format::resolve.
Resolution read_samples(const Location& location, const Catalogue& catalogue,
                        std::span<const std::uint32_t> files,
                        const std::function<void()>& before_file);

/// Compares what was read and notes how much that is; the samples are gone then. Each master rounds
/// to its weight, to nearest and ties to even, or both are no numbers. Error(mismatch) naming the
/// parameters of which one does not, the first such element and its files. Pure.
void hold_samples(Catalogue& catalogue, const std::vector<Resolution>& resolutions);

}  // namespace shardweld::formats
