#include "agreed.hpp"

#include <exception>
#include <new>

#include "shardweld/core/error.hpp"

#include "../settings/same_options.hpp"

namespace shardweld::app {

Options agreed_options(mpi::Comm& ranks, const std::function<Options()>& read) {
    Options options = mpi::collectively_get(ranks, read);
    require_same_options(ranks, options.shared);
    return options;
}

void run_or_abort(mpi::Comm& ranks, const std::function<void()>& run) {
    try {
        run();
    } catch (const Error&) {
        throw;
    } catch (const std::exception& failure) {
        const bool is_memory = dynamic_cast<const std::bad_alloc*>(&failure) != nullptr;
        const ErrorCode code = is_memory ? ErrorCode::memory : ErrorCode::internal;
        ranks.abort(static_cast<int>(code));
        throw Error(code, is_memory ? "memory ran out" : failure.what());
    }
}

}  // namespace shardweld::app
