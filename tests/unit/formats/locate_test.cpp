// What is found in trees of directories: the cases of directories.txt.
#include <algorithm>
#include <cctype>
#include <iterator>
#include <sstream>

#include <unistd.h>

#include "core/text.hpp"
#include "formats/format.hpp"
#include "formats/recognise.hpp"
#include "formats/shared/iteration_directories.hpp"
#include "formats/typed_scan.hpp"
#include "io/whole_file.hpp"

#include "scratch.hpp"

namespace shardweld::formats {
namespace {

/// A line of a case, and where it stands.
struct Row {
    int number = 0;
    std::string verb;
    std::string rest;
};

struct Case {
    std::string name;
    std::vector<Row> rows;
    friend std::ostream& operator<<(std::ostream& out, const Case& one) { return out << one.name; }
};

std::string word_of(std::string& text) {
    const std::string word = text.substr(0, text.find(' '));
    text.erase(0, word.size() + 1);
    return word;
}

std::vector<std::string> words_in(const std::string& text) {
    std::istringstream in(text);
    return {std::istream_iterator<std::string>(in), {}};
}

std::vector<Case> read_cases() {
    std::vector<Case> cases;
    std::istringstream in(
        io::read_text(SHARDWELD_TEST_DATA "/../unit/formats/directories.txt", 1 << 20));
    int number = 0;
    for (std::string line; std::getline(in, line);) {
        ++number;
        if (line.empty() || line.starts_with('#')) {
            continue;
        }
        const std::string verb = word_of(line);
        if (verb == "case") {
            cases.push_back({line, {}});
        } else {
            cases.back().rows.push_back({number, verb, line});
        }
    }
    return cases;
}

/// "\n", "\0", "\x1f" stand for characters.
std::string unescaped(const std::string& text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char next = text[i] == '\\' && i + 1 < text.size() ? text[i + 1] : ' ';
        if (next == 'n' || next == '0') {
            out += next == 'n' ? '\n' : '\0';
            ++i;
        } else if (next == 'x') {
            out += static_cast<char>(std::stoi(text.substr(i + 2, 2), nullptr, 16));
            i += 3;
        } else {
            out += text[i];
        }
    }
    return out;
}

class Directories : public testing::TestWithParam<Case> {
  protected:
    [[nodiscard]] fs::path path(const std::string& name) const {
        if (name.starts_with("data/")) {
            return fs::path(SHARDWELD_TEST_DATA) / name.substr(5);
        }
        return name == "." ? top_ : top_ / name;
    }

    [[nodiscard]] std::string text(const std::string& of_case) const {
        return replaced(of_case, "@", top_.string());
    }

    /// Does `action` and holds its error, or what it gives, against `expected`: "! CODE TEXT" or
    /// "-> RESULT".
    void expect(std::string expected, const std::function<std::string()>& action) {
        std::string result;
        const auto [code, said] = error_of([&] { result = action(); });
        if (word_of(expected) == "->") {
            EXPECT_EQ(result, expected) << said;
            return;
        }
        EXPECT_EQ(name_of(code), word_of(expected)) << said;
        const bool is_end = expected.ends_with('$');
        const std::string part = text(expected.substr(0, expected.size() - (is_end ? 1 : 0)));
        EXPECT_TRUE(is_end ? said.ends_with(part) : said.find(part) != std::string::npos)
            << "no \"" << part << "\" in: " << said;
    }

    void expect_at(const std::string& row) {
        const std::size_t mark = std::min(row.find(" -> "), row.find(" ! ")) + 1;
        std::string expected = row.substr(mark);
        if (expected.starts_with("-> ")) {
            expected = "-> " + path(expected.substr(3)).string();
        }
        JobInput request;
        std::vector<fs::path> places;
        for (const std::string& word : words_in(row.substr(0, mark))) {
            const std::string value = word.substr(word.find('=') + 1);
            if (word.starts_with("role=")) {
                request.role = value;
            } else if (word.starts_with("iteration=")) {
                request.iteration = parse_index(value);
            } else if (word.starts_with("backend=")) {
                request.backend = value;
            } else if (word == "model=1") {
                request.wants_model = true;
            } else {
                places.push_back(path(word));
            }
        }
        for (const fs::path& place : places) {
            SCOPED_TRACE(place.string());
            request.directory = place;
            expect(expected, [&] {
                found_ = locate(request);
                return found_.directory.string();
            });
        }
    }

    void expect_has(std::string row) const {
        const std::string key = word_of(row);
        const auto optional_path = [&](const std::optional<fs::path>& found) {
            EXPECT_EQ(found.value_or("-"), row == "-" ? fs::path("-") : path(row)) << key;
        };
        if (key == "config") {
            optional_path(found_.hf_directory);
        } else if (key == "claims") {
            optional_path(found_.claims_file);
        } else if (key == "adapter") {
            optional_path(found_.adapter_directory);
        } else if (key == "iteration") {
            const auto fact = found_.facts.find("iteration");
            EXPECT_EQ(fact == found_.facts.end() ? "-" : std::to_string(fact->second), row);
        } else if (key == "warning") {
            EXPECT_TRUE(row == "-" ? found_.warnings.empty() : found_.warnings.contains(row));
        } else if (key == "note") {
            EXPECT_TRUE(std::ranges::any_of(found_.notes, [&](const std::string& note) {
                return note.find(text(row)) != std::string::npos;
            })) << listed(found_.notes);
        } else {
            ASSERT_TRUE(key == "format" || key == "files" || key == "notes") << key;
            EXPECT_EQ(key == "format"  ? found_.format
                      : key == "files" ? std::to_string(found_.shard_files.size())
                                       : std::to_string(found_.notes.size()),
                      row);
        }
    }

    void expect_choice(const std::string& row) {
        const std::size_t mark = std::min(row.find("-> "), row.find("! "));
        expect(text(row.substr(mark)), [&] {
            const auto wanted = parse_index(trim(row.substr(0, mark)));
            const auto choice = choose_step(top_, list_directory(top_), wanted);
            return !choice ? "-"
                           : choice->directory + (choice->note.empty() ? "" : " | ") + choice->note;
        });
    }

    void expect_stated(const std::string& row) {
        auto words = words_in(row);
        std::vector<std::string> stated;
        for (const auto& one : steps_stated(path(words.front()), true)) {
            EXPECT_FALSE(one.is_inner);
            stated.push_back(one.file + "=" + one.save.at("iteration"));
        }
        EXPECT_EQ(stated, std::vector<std::string>(words.begin() + 1, words.end()));
    }

    static void expect_sign(const std::string& row) {
        const std::size_t mark = row.find(" | ");
        for (const char* above : {"save", "save/part"}) {
            const Scratch scratch;
            for (const std::string& file : words_in(row.substr(0, mark))) {
                scratch.file(above + ("/" + file));
            }
            JobInput request;
            request.directory = scratch.path() / fs::path(above).parent_path();
            expect_error(ErrorCode::unsupported,
                         (scratch.path() / above).string() + " is " + row.substr(mark + 3),
                         [&] { (void)locate(request); });
        }
    }

    void follow(const Row& row) {
        std::string rest = row.rest;
        if (row.verb == "at") {
            expect_at(rest);
        } else if (row.verb == "has") {
            expect_has(rest);
        } else if (row.verb == "choose") {
            expect_choice(rest);
        } else if (row.verb == "stated") {
            expect_stated(rest);
        } else if (row.verb == "signs") {
            expect_sign(rest);
        } else if (row.verb == "named") {
            const fs::path given = path(word_of(rest));
            const bool is_found = rest.starts_with("-> ");
            expect(is_found ? "-> " + path(rest.substr(3)).string() : rest,
                   [&] { return named_directory(given).string(); });
        } else if (row.verb == "step") {
            const auto step = parse_step(word_of(rest));
            EXPECT_EQ(!step             ? "-"
                      : step->iteration ? std::to_string(*step->iteration)
                                        : step->directory,
                      rest);
        } else if (row.verb == "file") {
            const std::string name = word_of(rest);
            scratch_.file(name, unescaped(rest));
        } else if (row.verb == "dir") {
            scratch_.directory(rest);
        } else if (row.verb == "copy") {
            const std::string fixture = word_of(rest);
            scratch_.copy(fs::path(SHARDWELD_TEST_DATA) / fixture, rest);
        } else if (row.verb == "move") {
            const fs::path from = path(word_of(rest));
            fs::rename(from, path(rest));
        } else if (row.verb == "link") {
            const fs::path link = path(word_of(rest));
            fs::create_directory_symlink(rest, link);
        } else {
            ASSERT_EQ(row.verb, "gone");
            for (const std::string& name : words_in(rest)) {
                EXPECT_GT(fs::remove_all(path(name)), 0U) << name;
            }
        }
    }

  private:
    Scratch scratch_;
    fs::path top_ = fs::canonical(scratch_.path());
    Location found_;
};

TEST_P(Directories, are_what_their_rows_say) {
    for (const Row& row : GetParam().rows) {
        SCOPED_TRACE("directories.txt:" + std::to_string(row.number) + ": " + row.verb + " " +
                     row.rest);
        follow(row);
    }
}

INSTANTIATE_TEST_SUITE_P(Rows, Directories, testing::ValuesIn(read_cases()), [](const auto& one) {
    std::string name = one.param.name;
    std::ranges::replace_if(
        name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
    return name;
});

Location at(const fs::path& directory) {
    JobInput request;
    request.directory = directory;
    return locate(request);
}

TEST(Locate, takes_a_config_only_of_those_who_may_give_it) {
    if (::geteuid() != 0) {
        GTEST_SKIP() << "only root can give files away";
    }
    const Scratch scratch;
    scratch.copy(
        fixture("verl-value-llama-tp2-torchdist-bf16") / "source/global_step_10/critic/dist_ckpt",
        "dist_ckpt");
    scratch.file("huggingface/config.json", "{}");
    const fs::path shards = scratch.path() / "dist_ckpt";
    const fs::path config = scratch.path() / "huggingface";
    const auto owned_by = [&](uid_t user, const fs::path& path) {
        EXPECT_EQ(::chown(path.c_str(), user, static_cast<gid_t>(-1)), 0);
        return at(shards).hf_directory.has_value();
    };
    EXPECT_FALSE(owned_by(65534, config));
    EXPECT_EQ(at(shards).notes,
              std::vector<std::string>{config.string() + " is not used: " + config.string() +
                                       " lies outside " + shards.string() +
                                       " and belongs to user 65534"});
    EXPECT_FALSE(owned_by(0, config) && owned_by(65534, config / "config.json"));
    EXPECT_TRUE(owned_by(65534, shards)) << "whose the checkpoint is";
}

TEST(Locate, refuses_options_of_other_formats) {
    JobInput request;
    request.directory = fixture("llama-tp4-legacy-bf16");
    request.mesh.shape = {4};
    expect_error(ErrorCode::usage, "--mesh_dim_names and --mesh_shape are about FSDP",
                 [&] { (void)locate(request); });
}

TEST(Locate, reads_small_files_only) {
    const Scratch scratch;
    scratch.file("actor/ckpt_contents.json", std::string(100000, '['));
    expect_error(ErrorCode::corrupt, "", [&] { at(scratch.path() / "actor"); });
    scratch.directory("steps/iter_0000010");
    scratch.file("steps/latest_checkpointed_iteration.txt", std::string(10000, '1'));
    const fs::path steps = scratch.path() / "steps";
    EXPECT_EQ(choose_step(steps, list_directory(steps), std::nullopt)->directory, "iter_0000010");
    const std::string tar = std::string(257, '\0') + "ustar" + std::string(300, '\0');
    for (const char* name : {"step-10.tar", "model.nemo"}) {
        scratch.file(name, tar);
        expect_error(ErrorCode::usage, "is a file: a tar archive",
                     [&] { at(scratch.path() / name); });
    }
}

TEST(Locate, tells_how_to_get_a_model_of_the_hub) {
    expect_error(ErrorCode::not_found,
                 "Qwen/Qwen3-8B does not exist; if it is a model on the Hub, download it first: hf "
                 "download Qwen/Qwen3-8B --local-dir Qwen3-8B",
                 [] { at("Qwen/Qwen3-8B"); });
    for (const std::string path :
         {"gone", "/gone/model", "./gone/model", "gone/a/b", "gone/", "global_step_10/actor"}) {
        expect_error(ErrorCode::not_found, path + " does not exist; check the path",
                     [&] { at(path); });
    }
}

TEST(Recognise, refuses_what_is_still_to_be_merged) {
    const fs::path fsdp = fixture("../torch/fsdp2_w4_bf16_qwen2_tied") / "source";
    expect_error(ErrorCode::not_found,
                 "is a verl FSDP checkpoint (world size 4), no finished model; merge it first",
                 [&] { refuse_unmerged(fsdp); });
    const Scratch model;
    model.file("model.safetensors");
    refuse_unmerged(model.path());
    refuse_unmerged(model.path() / "gone");
}

TEST(Locate, result_can_be_shared) {
    Location location = at(fixture("verl-qwen3-tp2-pp2-torchdist-bf16") / "source");
    location.notes = {"one", "two"};
    const Location got = decoded<Location>(encoded(location));
    EXPECT_EQ(encoded(got), encoded(location));
    EXPECT_EQ(got.directory, location.directory);
    EXPECT_EQ(got.hf_directory, location.hf_directory);
    EXPECT_EQ(got.notes, location.notes);
    EXPECT_EQ(got.facts, location.facts);
    location.hf_directory.reset();
    EXPECT_EQ(decoded<Location>(encoded(location)).hf_directory, std::nullopt);
}

}  // namespace
}  // namespace shardweld::formats
