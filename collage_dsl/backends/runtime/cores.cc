// The parallel loops of kernels, on the cores that the caller gives them.
//
// TVM runs a parallel loop by calling the function whose address is the context symbol
// `__TVMBackendParallelLaunch`. This file registers another one. It shares the loop between the
// calling thread and a few helper threads, but only inside a call of a function that
// `collage.cores.v1` made. Elsewhere it calls the function that was registered before, so the loops
// of other modules run as they did.
//
// TVM's own pool cannot be used for this. Each calling thread has a pool of its own, so several
// callers start more threads than there are cores. Only the environment sets how long its threads
// spin. It binds its threads to cores, and limits the calling thread to some. It counts half of
// the processors, so two cores are one.
//
// Our helpers are shared by all callers. Each core begins with its own part of a loop, the same part
// in every loop, because there it finds what it wrote in the loop before. Then it takes tasks of
// the other parts. So a caller never waits for a helper to begin.
//
// Linux may wake a helper on the processor of the caller and leave it there, although others are
// idle: a helper runs for too short a time to be moved. So the caller moves it.

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <tvm/ffi/c_api.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "stay_loaded.h"

namespace {

using namespace tvm::ffi;

constexpr const char* kName = "collage.cores.v1";
constexpr const char* kWake = "collage.cores.v1.wake";
constexpr const char* kLaunch = "__TVMBackendParallelLaunch";
constexpr const char* kThreadName = "collage-core";

// More tasks than cores, because a core may be disturbed or its tasks may be longer than others. As
// many as the parts of a loop that `schedule/loops.py` shares; any other loop works too.
constexpr int kTasksPerCore = 8;
constexpr int kMostCores = 128;
// How long a helper looks for work before it sleeps. The next kernel of a run usually starts
// within a few microseconds; waking a thread takes longer than many kernels.
constexpr std::chrono::microseconds kAwake(200);
// The least time between two moves of a helper, each of which takes some microseconds. Where all
// processors are busy, no move helps.
constexpr std::chrono::milliseconds kBetweenMoves(1);

// As generated code calls it; see `tvm/runtime/c_backend_api.h`. There are no barriers here.
struct GroupEnv {
  void* sync_handle;
  int32_t num_task;
};
using Lambda = int (*)(int task, GroupEnv* env, void* closure);
using Launch = int (*)(Lambda lambda, void* closure, int num_task);

Launch launch_elsewhere = nullptr;

// The cores of the calls that this thread is in; 0 outside of them.
thread_local int given_cores = 0;

class Given {
 public:
  explicit Given(int cores) : before_(given_cores) { given_cores = cores; }
  ~Given() { given_cores = before_; }

 private:
  int before_;
};

// Waits a moment, but lets another thread run if there is one.
void Pause() {
#if defined(__x86_64__)
  for (int i = 0; i < 8; ++i) _mm_pause();
#endif
  sched_yield();
}

// One loop, in as many parts as there are cores.
class Job {
 public:
  Job(Lambda lambda, void* closure, int cores) : lambda_(lambda), closure_(closure), cores_(cores) {
    for (int part = 0; part < cores; ++part) parts_[part].taken.store(0, std::memory_order_relaxed);
  }

  // All tasks that are left, those of part `own` first.
  void Work(int own) {
    for (int i = 0; i < cores_ && !failed_.load(std::memory_order_relaxed); ++i) {
      WorkOn((own + i) % cores_);
    }
  }

  // The last access of a helper.
  void Leave() { left_.fetch_add(1, std::memory_order_release); }

  void WaitFor(int helpers) const {
    while (left_.load(std::memory_order_acquire) < helpers) Pause();
  }

  // Errors belong to a thread: the first one, whoever met it, becomes the caller's.
  int Result() {
    if (!failed_.load()) return 0;
    if (TVMFFIObjectHandle error = error_.load()) {
      TVMFFIErrorSetRaised(error);
      TVMFFIObjectDecRef(error);
    }
    return -1;
  }

 private:
  struct alignas(64) Part {
    std::atomic<int> taken;
  };

  void WorkOn(int part) {
    GroupEnv env{nullptr, cores_ * kTasksPerCore};
    for (int at; (at = parts_[part].taken.fetch_add(1, std::memory_order_relaxed)) < kTasksPerCore;) {
      if (lambda_(part * kTasksPerCore + at, &env, closure_) != 0) return Fail();
    }
  }

  void Fail() {
    TVMFFIObjectHandle error = nullptr, none = nullptr;
    TVMFFIErrorMoveFromRaised(&error);
    failed_.store(true);
    if (error != nullptr && !error_.compare_exchange_strong(none, error)) TVMFFIObjectDecRef(error);
  }

  Lambda lambda_;
  void* closure_;
  int cores_;
  Part parts_[kMostCores];
  std::atomic<int> left_{0};
  std::atomic<bool> failed_{false};
  std::atomic<TVMFFIObjectHandle> error_{nullptr};
};

// A thread that does the part `own` of the job in its box, and then other parts.
class Helper {
 public:
  explicit Helper(int own) : own_(own), thread_([this] { Run(); }) {
    pthread_setname_np(thread_.native_handle(), kThreadName);
    thread_.detach();
  }

  // Whether the helper was free, so that the job is in its box now.
  bool Offer(Job* job) {
    Job* found = box_.load(std::memory_order_relaxed);
    if (found == nullptr && box_.compare_exchange_strong(found, job)) return true;
    if (found != kAsleep || !box_.compare_exchange_strong(found, job)) return false;
    { std::lock_guard<std::mutex> lock(mutex_); }
    wake_.notify_one();
    return true;
  }

  // Moves the helper if it is on one of the processors `taken`, to which its own is added. It has
  // just got a job, so it is awake: only then does it move.
  void KeepOff(cpu_set_t* taken) {
    int processor = processor_.load(std::memory_order_relaxed);
    if (processor < 0) return;
    if (CPU_ISSET(processor, taken)) {
      Move(*taken);
    } else {
      CPU_SET(processor, taken);
    }
  }

  // Whether the helper had not begun yet, so that the job is out of its box now.
  bool Withdraw(Job* job) { return box_.compare_exchange_strong(job, nullptr); }

 private:
  static inline Job* const kAsleep = reinterpret_cast<Job*>(1);
  static inline Job* const kBusy = reinterpret_cast<Job*>(2);

  // To a processor that the caller may use and that is not `taken`. It stays there when it may use
  // all of them again.
  void Move(const cpu_set_t& taken) {
    int64_t now = std::chrono::steady_clock::now().time_since_epoch() / kBetweenMoves;
    if (moved_.exchange(now, std::memory_order_relaxed) == now) return;
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return;
    cpu_set_t free = allowed;
    for (int at = 0; at < CPU_SETSIZE; ++at) {
      if (CPU_ISSET(at, &taken)) CPU_CLR(at, &free);
    }
    if (CPU_COUNT(&free) == 0) return;
    sched_setaffinity(thread_id_.load(), sizeof(free), &free);
    sched_setaffinity(thread_id_.load(), sizeof(allowed), &allowed);
  }

  void Run() {
    given_cores = 1;
    thread_id_.store(gettid());
    for (;;) {
      Job* job = Wait();
      processor_.store(sched_getcpu(), std::memory_order_relaxed);
      if (job == nullptr || !box_.compare_exchange_strong(job, kBusy)) continue;
      job->Work(own_);
      box_.store(nullptr);  // first, so that the caller's next loop finds this helper free
      job->Leave();
    }
  }

  Job* Wait() {
    auto end = std::chrono::steady_clock::now() + kAwake;
    for (;;) {
      processor_.store(sched_getcpu(), std::memory_order_relaxed);
      Job* job = box_.load();
      if (job != nullptr) return job;
      if (std::chrono::steady_clock::now() > end) break;
      Pause();
    }
    std::unique_lock<std::mutex> lock(mutex_);
    Job* job = nullptr;
    if (!box_.compare_exchange_strong(job, kAsleep)) return job;
    wake_.wait(lock, [this] { return box_.load() != kAsleep; });
    return box_.load();
  }

  alignas(64) std::atomic<Job*> box_{nullptr};
  alignas(64) std::atomic<int> processor_{-1};  // where it was last
  std::atomic<int> thread_id_{0};
  std::atomic<int64_t> moved_{0};
  int own_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::thread thread_;  // the last member: it uses the others at once
};

// All helpers of the process. They are started when first needed, and never end.
class Helpers {
 public:
  static Helpers& Get() {
    static Helpers* all = new Helpers();
    return *all;
  }

  void Start(int wanted) {
    if (count_.load(std::memory_order_acquire) >= wanted) return;
    std::lock_guard<std::mutex> lock(starting_);
    for (int at = count_.load(); at < wanted; ++at) {
      try {
        helpers_[at] = StartOne(at + 1);
      } catch (const std::system_error&) {
        return;  // no more threads: the work is done by those that there are
      }
      count_.store(at + 1, std::memory_order_release);
    }
  }

  // Offers the job to the first `wanted` helpers. Returns how many took it, those are in `taken`.
  int Offer(Job* job, int wanted, Helper** taken) {
    int offered = 0;
    int count = std::min(wanted, count_.load(std::memory_order_acquire));
    cpu_set_t busy;
    CPU_ZERO(&busy);
    CPU_SET(sched_getcpu(), &busy);
    for (int at = 0; at < count; ++at) {
      if (!helpers_[at]->Offer(job)) continue;
      helpers_[at]->KeepOff(&busy);
      taken[offered++] = helpers_[at];
    }
    return offered;
  }

 private:
  // The child of a fork has no helpers.
  Helpers() { pthread_atfork(nullptr, nullptr, [] { Get().count_.store(0); }); }

  // Signals are for the threads of the program, not for helpers.
  static Helper* StartOne(int own) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      Helper* helper = new Helper(own);
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
      return helper;
    } catch (...) {
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
      throw;
    }
  }

  std::mutex starting_;
  std::atomic<int> count_{0};
  Helper* helpers_[kMostCores];
};

int LaunchAlone(Lambda lambda, void* closure) {
  GroupEnv env{nullptr, 1};
  return lambda(0, &env, closure);
}

int LaunchShared(Lambda lambda, void* closure, int cores) {
  Job job(lambda, closure, cores);
  Helper* taken[kMostCores];
  Helpers::Get().Start(cores - 1);
  int offered = Helpers::Get().Offer(&job, cores - 1, taken);
  job.Work(0);
  int begun = 0;
  for (int at = 0; at < offered; ++at) begun += taken[at]->Withdraw(&job) ? 0 : 1;
  job.WaitFor(begun);
  return job.Result();
}

int LaunchLoop(Lambda lambda, void* closure, int num_task) {
  if (given_cores == 0) return launch_elsewhere(lambda, closure, num_task);
  if (given_cores == 1) return LaunchAlone(lambda, closure);
  return LaunchShared(lambda, closure, given_cores);
}

// The processors that this process may use.
int Processors() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return kMostCores;
  return std::clamp(CPU_COUNT(&allowed), 1, kMostCores);
}

// Returns when the helpers for so many cores are awake.
void Wake(int64_t cores) {
  int helpers = static_cast<int>(std::min<int64_t>(cores, Processors())) - 1;
  Job job([](int, GroupEnv*, void*) { return 0; }, nullptr, 1);
  Helper* taken[kMostCores];
  Helpers::Get().Start(helpers);
  job.WaitFor(Helpers::Get().Offer(&job, helpers, taken));
}

// `function`, with that many cores for its parallel loops, or as many as this process may use.
Function OnCores(Function function, int64_t cores) {
  int most = static_cast<int>(std::min<int64_t>(cores, Processors()));
  return Function::FromPacked([function, most](PackedArgs arguments, Any* result) {
    Given given(most);
    function.CallPacked(arguments, result);
  });
}

Launch Registered() {
  void* found = nullptr;
  Module::VisitContextSymbols([&found](const String& name, void* symbol) {
    if (name == kLaunch) found = symbol;
  });
  return reinterpret_cast<Launch>(found);
}

__attribute__((constructor)) void Register() {
  if (Function::GetGlobal(kName).has_value()) return;
  launch_elsewhere = Registered();
  if (launch_elsewhere == nullptr) return;
  collage::StayLoaded(reinterpret_cast<void*>(&Register));
  TVMFFIEnvModRegisterContextSymbol(kLaunch, reinterpret_cast<void*>(&LaunchLoop));
  Function::SetGlobal(kWake, Function::FromTyped(Wake), /*override=*/true);
  Function::SetGlobal(kName, Function::FromTyped(OnCores), /*override=*/true);
}

}  // namespace
