#include <algorithm>
#include <filesystem>
#include <new>

#include "shardweld/core/errno.hpp"
#include "shardweld/mpi/comm.hpp"

namespace shardweld::mpi {

namespace {

/// First byte the code, then the text.
std::vector<std::byte> encode(const Error& error, const std::string& prefix) {
    const std::string text = prefix + error.what();
    std::vector<std::byte> bytes{static_cast<std::byte>(error.code())};
    std::transform(text.begin(), text.end(), std::back_inserter(bytes),
                   [](char c) { return static_cast<std::byte>(c); });
    return bytes;
}

std::string text_in(const std::vector<std::byte>& bytes) {
    std::string text(bytes.size() - 1, '\0');
    std::transform(bytes.begin() + 1, bytes.end(), text.begin(),
                   [](std::byte b) { return static_cast<char>(b); });
    return text;
}

std::string others_failed(Index others) {
    if (others == 0) {
        return "";
    }
    return " (and " + std::to_string(others) +
           (others == 1 ? " more rank failed)" : " more ranks failed)");
}

}  // namespace

std::optional<Error> error_of(const std::function<void()>& local) {
    try {
        local();
        return std::nullopt;
    } catch (const Error& error) {
        return Error(error.code(), error.full_text());
    } catch (const std::bad_alloc&) {
        return Error(ErrorCode::memory,
                     "memory ran out; give the job more memory per rank or "
                     "lower --memory_limit");
    } catch (const std::filesystem::filesystem_error& error) {
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

void collectively(Comm& comm, const std::function<void()>& local) {
    const std::optional<Error> mine = error_of(local);
    if (comm.size() == 1) {
        comm.pulse().beat();
        if (mine) {
            throw Error(*mine);
        }
        return;
    }
    // One reduction when all is well: 0, else the size less the lowest failing rank.
    const Index worst = comm.all_max(mine ? comm.size() - comm.rank() : 0);
    if (worst == 0) {
        return;
    }
    const Index failed = comm.all_sum(mine ? 1 : 0);
    const int speaker = static_cast<int>(comm.size() - worst);
    std::vector<std::byte> report;
    if (comm.rank() == speaker) {
        report = encode(*mine, "rank " + std::to_string(speaker) + " (" + comm.host() + "): ");
    }
    report = comm.broadcast(std::move(report), speaker);
    throw Error(static_cast<ErrorCode>(report.front()),
                text_in(report) + others_failed(failed - 1));
}

}  // namespace shardweld::mpi
