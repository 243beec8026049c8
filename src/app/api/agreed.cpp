#include "agreed.hpp"

#include <exception>

#include "app/settings/same_options.hpp"
#include "shardweld/error.hpp"

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
    } catch (const std::exception&) {
        const Error own = mpi::error_of([] { throw; }).value();
        if (ranks.size() > 1) {
            ranks.abort(static_cast<int>(own.code()));
        }
        throw own;
    }
}

}  // namespace shardweld::app
