#include "publish/target.hpp"

#include <csignal>
#include <functional>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "support/error_text.hpp"
#include "support/temporary_directory.hpp"

namespace shardweld::publish {
namespace {

using test::content_of;
using test::error_text;
using test::TemporaryDirectory;

std::vector<std::string> names_in(const fs::path& directory) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory)) {
        names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
}

using Names = std::vector<std::string>;

/// What lies in a partial directory, but its journal, as files that were written.
io::Identities written_in(const fs::path& partial) {
    io::Identities files;
    const io::Directory directory(partial);
    for (const io::Below& entry : io::listed_below(directory)) {
        if (!entry.is_directory && *entry.name.begin() != "journal") {
            files[entry.name] = *io::identity_at(directory, entry.name);
        }
    }
    return files;
}

void commit(PartialDirectory& partial, bool sync) {
    partial.commit(written_in(partial.path()), sync);
}

TEST(CheckedTarget, resolves_slashes_dots_and_links) {
    const TemporaryDirectory place;
    fs::create_directories(place.path() / "real");
    fs::create_symlink(place.path() / "real", place.path() / "link");
    const auto checked = [&](const std::string& name) {
        return checked_target(place.path() / name, {}, false);
    };
    EXPECT_EQ(checked("out"), place.path() / "out");
    EXPECT_EQ(checked("out/"), place.path() / "out");
    EXPECT_EQ(checked("real/../out/."), place.path() / "out");
    EXPECT_EQ(checked("link"), place.path() / "real");
    EXPECT_EQ(checked("link/"), place.path() / "real");
}

TEST(CheckedTarget, refuses_what_must_not_be_replaced) {
    const TemporaryDirectory place;
    place.put("full/model.safetensors");
    place.put("plain", "x");
    place.put("step/ckpt/shard");
    place.put("hf/config.json");
    fs::create_symlink(place.path() / "nowhere", place.path() / "broken");
    const std::string root = place.path().string();
    const auto refusal = [&](const std::string& name, bool overwrite) {
        return error_text([&] {
            checked_target(place.path() / name, {place.path() / "step/ckpt", place.path() / "hf"},
                           overwrite);
        });
    };
    const std::string start = "target: the target directory " + root;
    EXPECT_EQ(refusal("full", false),
              start +
                  "/full exists and is not empty; choose another one, or replace it with "
                  "--overwrite");
    EXPECT_EQ(refusal("full", true), "no error");
    // Not where the checkpoint was named last.
    const std::string swapped = error_text(
        [&] { checked_target(place.path() / "full", {place.path() / "merged"}, false); });
    EXPECT_NE(swapped.find("the checkpoint comes first"), std::string::npos) << swapped;
    EXPECT_EQ(swapped.find("--overwrite"), std::string::npos) << swapped;
    EXPECT_EQ(refusal("plain", true),
              start + "/plain is a file, not a directory; choose another --target_dir");
    EXPECT_EQ(refusal("step/ckpt", true),
              start + "/step/ckpt is read as input; choose another --target_dir");
    EXPECT_EQ(refusal("step/ckpt/merged", false), "no error");
    EXPECT_EQ(refusal("step", true), start + "/step contains the input " + root +
                                         "/step/ckpt; choose another --target_dir");
    EXPECT_EQ(refusal("hf/merged", true), "no error");
    EXPECT_EQ(refusal("hf", true), start + "/hf is read as input; choose another --target_dir");
    EXPECT_EQ(refusal("step/ckpt2", true), "no error");
    EXPECT_EQ(refusal("broken", true).substr(0, 7), "target:");
    EXPECT_EQ(error_text([] { checked_target("/", {}, true); }),
              "target: the target directory / is the root of the file system; choose another "
              "--target_dir");
}

TEST(PartialDirectory, appears_under_its_name_only_when_committed) {
    const TemporaryDirectory place;
    {
        auto partial = PartialDirectory::create(place.path() / "a/b/out", {}, false);
        EXPECT_EQ(partial.path(), place.path() / "a/b/.out.shardweld-partial");
        EXPECT_EQ(partial.target(), place.path() / "a/b/out");
        std::ofstream(partial.path() / "model.safetensors") << "weights";
        EXPECT_FALSE(fs::exists(place.path() / "a/b/out"));
        commit(partial, true);
    }
    EXPECT_EQ(names_in(place.path() / "a/b"), (Names{"out"}));
    EXPECT_EQ(content_of(place.path() / "a/b/out/model.safetensors"), "weights");
}

TEST(PartialDirectory, leaves_nothing_behind_without_commit) {
    const TemporaryDirectory place;
    place.put("kept/file");
    {
        auto partial = PartialDirectory::create(place.path() / "kept/new/out", {}, false);
        std::ofstream(partial.path() / "model.safetensors") << "weights";
        const auto moved = std::move(partial);
        EXPECT_TRUE(fs::exists(moved.path()));
    }
    EXPECT_EQ(names_in(place.path() / "kept"), (Names{"file"}));
}

TEST(PartialDirectory, replaces_an_empty_and_a_full_target) {
    const TemporaryDirectory place;
    fs::create_directory(place.path() / "out");
    ::chmod((place.path() / "out").c_str(), 02750);
    {
        auto partial = PartialDirectory::create(place.path() / "out", {}, false);
        std::ofstream(partial.path() / "first.safetensors") << "1";
        commit(partial, false);
    }
    EXPECT_EQ(names_in(place.path() / "out"), (Names{"first.safetensors"}));
    struct stat status {};
    ASSERT_EQ(::stat((place.path() / "out").c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777U, 02750U);
    {
        auto partial = PartialDirectory::create(place.path() / "out", {}, true);
        std::ofstream(partial.path() / "second.safetensors") << "2";
        EXPECT_EQ(names_in(place.path() / "out"), (Names{"first.safetensors"}));
        commit(partial, true);
        EXPECT_EQ(partial.notes(), (Names{}));
    }
    EXPECT_EQ(names_in(place.path() / "out"), (Names{"second.safetensors"}));
    EXPECT_EQ(names_in(place.path()), (Names{"out"}));
}

TEST(PartialDirectory, writes_through_a_link_to_a_directory) {
    const TemporaryDirectory place;
    fs::create_directories(place.path() / "disk/model");
    fs::create_symlink(place.path() / "disk/model", place.path() / "out");
    auto partial = PartialDirectory::create(place.path() / "out", {}, false);
    std::ofstream(partial.path() / "f") << "1";
    commit(partial, false);
    EXPECT_TRUE(fs::is_symlink(place.path() / "out"));
    EXPECT_EQ(content_of(place.path() / "disk/model/f"), "1");
}

TEST(PartialDirectory, removes_what_a_dead_run_left) {
    const TemporaryDirectory place;
    place.put(".out.shardweld-partial/half");
    place.put(".out.shardweld-lock", "elsewhere 1\n");
    auto partial = PartialDirectory::create(place.path() / "out", {}, false);
    EXPECT_EQ(names_in(partial.path()), (Names{}));
    EXPECT_EQ(partial.notes(), (Names{"removed " + partial.path().string() +
                                      ", left by a run that did not finish"}));
    commit(partial, false);
    EXPECT_EQ(names_in(place.path()), (Names{"out"}));
}

TEST(PartialDirectory, keeps_what_the_journal_tells_of) {
    const TemporaryDirectory place;
    {
        auto partial = PartialDirectory::create(place.path() / "out", {}, false, true);
        EXPECT_FALSE(partial.is_taken_up());
        place.put(".out.shardweld-partial/journal/header.json");
        place.put(".out.shardweld-partial/model.safetensors");
    }
    EXPECT_EQ(names_in(place.path()), (Names{})) << "a header alone tells of nothing";
    {
        auto partial = PartialDirectory::create(place.path() / "out", {}, false, true);
        place.put(".out.shardweld-partial/journal/header.json");
        place.put(".out.shardweld-partial/journal/1-0");
        place.put(".out.shardweld-partial/model.safetensors");
        place.put(".out.shardweld-partial/more/tokenizer.json");
    }
    EXPECT_EQ(names_in(place.path()), (Names{".out.shardweld-partial"}));
    {
        auto partial = PartialDirectory::create(place.path() / "out", {}, false, true);
        EXPECT_TRUE(partial.is_taken_up());
        EXPECT_EQ(partial.notes(), (Names{}));
        partial.keep_only({"model.safetensors"});
        EXPECT_FALSE(fs::exists(partial.path() / "more/tokenizer.json"));
        EXPECT_EQ(names_in(partial.journal()), (Names{"1-0", "header.json"}));
        fs::remove_all(partial.path() / "more");
        commit(partial, true);
    }
    EXPECT_EQ(names_in(place.path()), (Names{"out"}));
    EXPECT_EQ(names_in(place.path() / "out"), (Names{"model.safetensors"}));
}

TEST(PartialDirectory, removes_what_was_kept_when_it_is_not_to_be_resumed) {
    const TemporaryDirectory place;
    place.put(".out.shardweld-partial/journal/1-0");
    place.put(".out.shardweld-journal/1-0");
    auto partial = PartialDirectory::create(place.path() / "out", {}, false);
    EXPECT_FALSE(partial.is_taken_up());
    EXPECT_EQ(partial.take_notes(),
              (Names{"removed " + partial.path().string() +
                     ", left by a run that did not finish, with what it had written (--restart)"}));
    EXPECT_EQ(partial.notes(), (Names{}));
    commit(partial, false);
    EXPECT_EQ(names_in(place.path()), (Names{"out"}));
}

TEST(PartialDirectory, keeps_what_it_cannot_look_at) {
    const TemporaryDirectory place;
    place.put(".out.shardweld-partial/journal/1-0");
    place.put(".out.shardweld-partial/model.safetensors");
    fs::permissions(place.path(), fs::perms::all);
    fs::permissions(place.path() / ".out.shardweld-partial", fs::perms::all);
    fs::permissions(place.path() / ".out.shardweld-partial/journal", fs::perms::none);
    const pid_t child = ::fork();
    if (child == 0) {
        // Rights mean nothing to root.
        if (::geteuid() == 0 && ::setuid(65534) != 0) {
            ::_exit(3);
        }
        const std::string refusal = error_text(
            [&] { (void)PartialDirectory::create(place.path() / "out", {}, false, true); });
        ::_exit(refusal.starts_with("io: ") &&
                        refusal.find("journal: Permission denied") != std::string::npos
                    ? 0
                    : 1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    fs::permissions(place.path() / ".out.shardweld-partial/journal", fs::perms::all);
    EXPECT_EQ(names_in(place.path()), (Names{".out.shardweld-partial"}));
    EXPECT_EQ(names_in(place.path() / ".out.shardweld-partial/journal"), (Names{"1-0"}));
}

TEST(PartialDirectory, names_the_job_that_holds_the_lock) {
    const TemporaryDirectory place;
    const auto held =
        PartialDirectory::create(place.path() / "out", {}, false, false, this_process("4242"));
    const std::string text =
        error_text([&] { PartialDirectory::create(place.path() / "out", {}, false); });
    EXPECT_NE(text.find("process " + std::to_string(::getpid()) + " of job 4242 on host "),
              std::string::npos)
        << text;
}

TEST(PartialDirectory, refuses_while_another_process_writes) {
    const TemporaryDirectory place;
    int ready[2] = {-1, -1};
    ASSERT_EQ(::pipe(ready), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        const auto held = PartialDirectory::create(place.path() / "out", {}, false);
        (void)!::write(ready[1], "r", 1);
        ::pause();
    }
    char letter = 0;
    ASSERT_EQ(::read(ready[0], &letter, 1), 1);
    char host[256] = {};
    ::gethostname(host, sizeof host - 1);
    EXPECT_EQ(error_text([&] { PartialDirectory::create(place.path() / "out", {}, false); }),
              "locked: another run is writing " + (place.path() / "out").string() + ": process " +
                  std::to_string(child) + " on host " + host + " holds " +
                  (place.path() / ".out.shardweld-lock").string() +
                  "; wait for it or choose another --target_dir");
    // The refused run must not have touched the other's directory; a dead holder does not block.
    EXPECT_TRUE(fs::exists(place.path() / ".out.shardweld-partial"));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    ::close(ready[0]);
    ::close(ready[1]);
    EXPECT_EQ(error_text([&] { PartialDirectory::create(place.path() / "out", {}, false); }),
              "no error");
    EXPECT_EQ(names_in(place.path()), (Names{}));
}

TEST(PartialDirectory, lies_inside_a_target_that_is_the_current_directory) {
    const TemporaryDirectory place;
    place.put("notes.txt", "mine");
    place.put("model-00002-of-00002.safetensors", "old");
    place.put("model.safetensors.index.json", "old");
    const fs::path before = fs::current_path();
    fs::current_path(place.path());
    auto partial = PartialDirectory::create(".", {}, true);
    EXPECT_EQ(partial.path(), place.path() / ".shardweld-partial");
    std::ofstream(partial.path() / "model.safetensors") << "new";
    fs::create_directory(partial.path() / "chat_templates");
    std::ofstream(partial.path() / "chat_templates/t.jinja") << "t";
    commit(partial, true);
    fs::current_path(before);
    EXPECT_EQ(names_in(place.path()), (Names{"chat_templates", "model.safetensors", "notes.txt"}));
    EXPECT_EQ(content_of(place.path() / "model.safetensors"), "new");
    EXPECT_EQ(content_of(place.path() / "chat_templates/t.jinja"), "t");
}

TEST(PartialDirectory, puts_old_files_back_when_a_new_one_cannot_take_its_place) {
    const TemporaryDirectory place;
    place.put("chat_templates", "a file where a directory is wanted");
    place.put("config.json", "old");
    place.put("model.safetensors", "old");
    place.put("model.safetensors.index.json", "old");
    const fs::path before = fs::current_path();
    fs::current_path(place.path());
    {
        auto partial = PartialDirectory::create(".", {}, true);
        std::ofstream(partial.path() / "model.safetensors") << "new";
        std::ofstream(partial.path() / "config.json") << "new";
        fs::create_directory(partial.path() / "chat_templates");
        std::ofstream(partial.path() / "chat_templates/t.jinja") << "t";
        EXPECT_NE(error_text([&] { commit(partial, true); }).find("chat_templates"),
                  std::string::npos);
    }
    fs::current_path(before);
    for (const char* name : {"config.json", "model.safetensors", "model.safetensors.index.json"}) {
        EXPECT_EQ(content_of(place.path() / name), "old") << name;
    }
    EXPECT_EQ(content_of(place.path() / "chat_templates"), "a file where a directory is wanted");
    EXPECT_FALSE(fs::exists(place.path() / ".shardweld-partial"));
}

/// What others may do to a finished partial directory, and what is said of it.
struct Meddling {
    std::function<void(const fs::path& place, const fs::path& partial)> act;
    std::string refusal;
};

TEST(PartialDirectory, publishes_nothing_but_what_was_written) {
    const std::string changed =
        ": another program changed it while this run wrote it; nothing is published; keep programs "
        "that clean scratch space away from the target";
    const std::string gone = " is no longer the directory that this run writes";
    const std::vector<Meddling> all = {
        {[](const auto&, const auto& partial) { fs::remove(partial / "sub/a.safetensors"); },
         "io: PARTIAL/sub/a.safetensors is gone" + changed},
        {[](const auto&, const auto& partial) { fs::resize_file(partial / "config.json", 1); },
         "io: PARTIAL/config.json has 1 bytes, expected 3" + changed},
        {[](const auto&, const auto& partial) {
             fs::copy_file(partial / "config.json", partial / "new");
             fs::rename(partial / "new", partial / "config.json");
         },
         "io: PARTIAL/config.json is another file than the one that was written" + changed},
        {[](const auto&, const auto& partial) { ::chmod((partial / "config.json").c_str(), 0600); },
         "io: PARTIAL/config.json has the mode 0600, it was created with 0644" + changed},
        {[](const auto&, const auto& partial) {
             fs::rename(partial / "config.json", partial / "other");
             fs::create_symlink("other", partial / "config.json");
         },
         "io: PARTIAL/config.json is no longer a regular file" + changed},
        {[](const auto&, const auto& partial) { std::ofstream(partial / "sub/mine") << "mine"; },
         "target: PARTIAL/sub/mine is none of the files that this run wrote"},
        {[](const auto& place, const auto& partial) { fs::rename(partial, place / "moved"); },
         "target: PARTIAL" + gone},
        {[](const auto& place, const auto& partial) {
             fs::rename(partial, place / "moved");
             fs::copy(place / "moved", partial, fs::copy_options::recursive);
         },
         "target: PARTIAL" + gone},
        {[](const auto& place, const auto&) {
             fs::rename(place, place.string() + ".moved");
             fs::create_directory(place);
         },
         "target: "},
    };
    for (const Meddling& one : all) {
        for (const bool is_inside : {false, true}) {
            const TemporaryDirectory above;
            const fs::path place = above.path() / "place";
            above.put("place/out/model.safetensors", "old");
            const fs::path before = fs::current_path();
            fs::current_path(is_inside ? place / "out" : before);
            auto partial = PartialDirectory::create(place / "out", {}, true);
            fs::create_directory(partial.path() / "sub");
            for (const char* name : {"config.json", "sub/a.safetensors", "model.safetensors"}) {
                std::ofstream(partial.path() / name) << "new";
                ::chmod((partial.path() / name).c_str(), 0644);
            }
            const io::Identities files = written_in(partial.path());
            one.act(place, partial.path());
            std::string expected = one.refusal;
            if (const auto at = expected.find("PARTIAL"); at != std::string::npos) {
                expected.replace(at, 7, partial.path().string());
            }
            EXPECT_EQ(error_text([&] { partial.commit(files, true); }).substr(0, expected.size()),
                      expected);
            fs::current_path(before);
            const fs::path moved = place.string() + ".moved";
            EXPECT_EQ(content_of((fs::exists(moved) ? moved : place) / "out/model.safetensors"),
                      "old")
                << expected;
        }
    }
}

/// A process that holds a lock on `path` until it is killed.
pid_t hold(const fs::path& path) {
    int ready[2] = {-1, -1};
    EXPECT_EQ(::pipe(ready), 0);
    const pid_t child = ::fork();
    if (child == 0) {
        const int fd = ::open(path.c_str(), O_RDWR | O_CREAT, 0666);
        (void)::flock(fd, LOCK_EX);
        (void)!::write(ready[1], "r", 1);
        ::pause();
    }
    char letter = 0;
    EXPECT_EQ(::read(ready[0], &letter, 1), 1);
    ::close(ready[0]);
    ::close(ready[1]);
    return child;
}

TEST(PartialDirectory, sees_the_lock_in_the_target_from_beside) {
    const TemporaryDirectory place;
    place.put("out/.shardweld-lock", "elsewhere 7 42\n");
    const pid_t child = hold(place.path() / "out/.shardweld-lock");
    EXPECT_EQ(error_text([&] { PartialDirectory::create(place.path() / "out", {}, false); }),
              "locked: another run is writing " + (place.path() / "out").string() +
                  ": process 7 of job 42 on host elsewhere holds " +
                  (place.path() / "out/.shardweld-lock").string() +
                  "; wait for it or choose another --target_dir");
    EXPECT_EQ(names_in(place.path()), (Names{"out"}));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    auto partial = PartialDirectory::create(place.path() / "out", {}, false);
    std::ofstream(partial.path() / "f") << "1";
    commit(partial, false);
    EXPECT_EQ(names_in(place.path() / "out"), (Names{"f"})) << "a dead run's lock is no content";
}

TEST(PartialDirectory, does_not_replace_what_came_meanwhile) {
    const TemporaryDirectory place;
    for (const bool is_there : {false, true}) {
        fs::remove_all(place.path() / "out");
        if (is_there) {
            fs::create_directory(place.path() / "out");
        }
        auto partial = PartialDirectory::create(place.path() / "out", {}, false);
        place.put(".out.shardweld-partial/journal/1-0");
        place.put("out/theirs", "theirs");
        EXPECT_EQ(error_text([&] { commit(partial, true); }).substr(0, 8), "target: ");
        EXPECT_EQ(content_of(place.path() / "out/theirs"), "theirs");
        EXPECT_EQ(names_in(partial.journal()), (Names{"1-0"}));
    }
    EXPECT_EQ(names_in(place.path()), (Names{".out.shardweld-partial", "out"}));
}

TEST(PartialDirectory, takes_back_what_a_killed_run_had_published_inside) {
    const TemporaryDirectory place;
    const auto put = [&] {
        fs::remove_all(place.path() / "out");
        place.put("out/.shardweld-partial/journal/1-0");
        place.put("out/.shardweld-partial/model.safetensors.index.json", "index");
        place.put("out/.shardweld-partial/config.json", "here");
        place.put("out/sub/a.safetensors", "weights");
        place.put("x", "mine");
        place.put("out/.shardweld-partial/journal/moves",
                  std::string("7 sub/a.safetensors\0005 model.safetensors.index.json\0"
                              "4 config.json\0004 ../x\0004 cut",
                              77));
    };
    const auto creation = [&](bool resume) {
        return error_text(
            [&] { (void)PartialDirectory::create(place.path() / "out", {}, false, resume); });
    };
    const std::string refusal = "target: the target directory " + (place.path() / "out").string() +
                                " exists and is not empty; choose another one; the checkpoint "
                                "comes first: shardweld merge CHECKPOINT OUT";
    put();
    EXPECT_EQ(creation(false), refusal);
    EXPECT_EQ(names_in(place.path() / "out"), (Names{".shardweld-partial", "sub"}));
    for (const char* foreign : {"out/mine", "out/sub/mine", "out/config.json", "out/cut"}) {
        put();
        place.put(foreign, "mine");
        EXPECT_EQ(creation(true), refusal) << foreign;
    }
    put();
    place.put("out/sub/a.safetensors", "longer than it was");
    EXPECT_EQ(creation(true), refusal);
    put();
    {
        auto partial = PartialDirectory::create(place.path() / "out", {}, false, true);
        EXPECT_TRUE(partial.is_taken_up());
        EXPECT_EQ(partial.path(), place.path() / "out/.shardweld-partial");
        EXPECT_EQ(names_in(place.path() / "out"), (Names{".shardweld-partial"}));
        EXPECT_EQ(content_of(partial.path() / "sub/a.safetensors"), "weights");
        EXPECT_EQ(names_in(partial.journal()), (Names{"1-0"}));
        commit(partial, true);
    }
    EXPECT_EQ(names_in(place.path()), (Names{"out", "x"}));
    EXPECT_EQ(names_in(place.path() / "out"),
              (Names{"config.json", "model.safetensors.index.json", "sub"}));
}

TEST(PartialDirectory, leaves_older_files_where_nothing_had_been_moved_yet) {
    const TemporaryDirectory place;
    place.put("out/.shardweld-partial/journal/1-0");
    place.put("out/.shardweld-partial/journal/moves", std::string("3 config.json\0", 14));
    place.put("out/.shardweld-partial/config.json", "new");
    place.put("out/config.json", "old");
    {
        auto partial = PartialDirectory::create(place.path() / "out", {}, true, true);
        partial.keep_only({});
    }
    auto partial = PartialDirectory::create(place.path() / "out", {}, true, true);
    EXPECT_EQ(content_of(place.path() / "out/config.json"), "old");
}

TEST(CheckSameDirectory, accepts_its_own_and_leaves_no_trace) {
    const TemporaryDirectory place;
    const auto comm = mpi::serial_comm();
    EXPECT_EQ(error_text([&] { check_same_directory(*comm, place.path()); }), "no error");
    EXPECT_EQ(names_in(place.path()), (Names{}));
}

}  // namespace
}  // namespace shardweld::publish
