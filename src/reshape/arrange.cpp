#include "arrange.hpp"

#include "shardweld/error.hpp"

#include "legacy.hpp"
#include "module_tree.hpp"
#include "torch_dist.hpp"
#include "universal.hpp"

namespace shardweld::reshape {

Arrangement arrangement_of(const Destination& destination, const models::Symbols& symbols) {
    switch (destination.form) {
        case Form::torch_dist:
            return torch_dist_arrangement(destination, symbols);
        case Form::legacy:
            return legacy_arrangement(destination, symbols);
        case Form::fsdp:
            return fsdp_arrangement(destination, symbols);
        case Form::dcp:
            return dcp_arrangement(destination, symbols);
        case Form::universal:
            return universal_arrangement(symbols);
        case Form::hf:
        case Form::same:
        case Form::like:
            break;
    }
    throw Error(ErrorCode::internal, "no form of its own is written");
}

}  // namespace shardweld::reshape
