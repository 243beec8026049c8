// Where an error happened, told on its way up.
#pragma once

#include <string>
#include <string_view>

#include "shardweld/error.hpp"

#include "text.hpp"

namespace shardweld {

/// What `run` gives. An Error from it gets the context `what` with the name, made safe to print:
/// "tensor " and "lm_head.weight".
template <typename Name, typename Run>
auto in_context(std::string_view what, const Name& name, Run&& run) -> decltype(run()) {
    try {
        return run();
    } catch (Error& error) {
        error.add_context(std::string(what) + printable(std::string(name)));
        throw;
    }
}

}  // namespace shardweld
