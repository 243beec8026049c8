// One tensor's path in words: what is stored of it, the layouts on both sides, where it goes.
#pragma once

#include <string>
#include <vector>

#include "catalogue/file.hpp"
#include "plan/binding.hpp"

namespace shardweld::catalogue {
struct Catalogue;
}  // namespace shardweld::catalogue

namespace shardweld::plan {

struct Plan;

/// The stored tensors and shards that `name` is made of (or that it is the stored name of): their
/// dialect lines, placements and pieces; then the hub line. Lines of text; empty when `name` is
/// unknown to both sides.
std::vector<std::string> trace_stored(const catalogue::Catalogue& catalogue, const Model& model,
                                      const std::string& name);

/// The output tensor called `name`: copies, file and offset, the ranks that write and read it.
/// Empty when there is none.
std::vector<std::string> trace_target(const Plan& plan, const std::vector<catalogue::File>& files,
                                      const std::string& name);

}  // namespace shardweld::plan
