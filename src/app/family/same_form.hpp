// --to same: the form that a checkpoint has already.
#pragma once

#include <string>

namespace shardweld::catalogue {
struct Catalogue;
}  // namespace shardweld::catalogue

namespace shardweld::app {

/// What --to would have to say to write a checkpoint of this one's form, for as many ranks: of
/// Megatron's names, stages and parallel sizes, or how many ranks hold rows. Error(unsupported) for
/// a form that is read and not written.
std::string form_of(const catalogue::Catalogue& catalogue);

}  // namespace shardweld::app
