#include "error_of.hpp"

#include <new>

#include "core/process/system.hpp"

#include "path.hpp"

namespace shardweld {

std::optional<Error> error_of(const std::function<void()>& work) {
    try {
        work();
        return std::nullopt;
    } catch (const Error& error) {
        return error;
    } catch (const std::bad_alloc&) {
        return Error(ErrorCode::memory, "memory ran out",
                     "give the job more memory per rank or lower --memory_limit");
    } catch (const fs::filesystem_error& error) {
        const std::string second = error.path2().empty() ? "" : " and " + error.path2().string();
        return Error(code_of_errno(error.code().value()), "cannot use " + error.path1().string() +
                                                              second + ": " +
                                                              text_of_errno(error.code().value()));
    } catch (const std::exception& error) {
        return Error(ErrorCode::internal, std::string("unexpected error: ") + error.what());
    } catch (...) {
        return Error(ErrorCode::internal, "unexpected error of an unknown type");
    }
}

}  // namespace shardweld
