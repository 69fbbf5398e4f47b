import Glibc

/// Does next to nothing, but cannot be inlined by the optimizer.
@inline(never) func work(_ counter: inout Int) { counter &+= 1 }

@inline(never) func asynchronousWork(_ counter: inout Int) async { counter &+= 1 }

/// Runs asynchronous code to its end, because figures are measured one after the other.
func waiting(_ body: @escaping @Sendable () async throws -> Void) throws {
  nonisolated(unsafe) var result: Result<Void, any Error> = .failure(BenchError("did not end"))
  nonisolated(unsafe) var semaphore = sem_t()
  unsafe sem_init(&semaphore, 0, 0)
  Task.detached {
    do { unsafe result = .success(try await body()) } catch { unsafe result = .failure(error) }
    unsafe sem_post(&semaphore)
  }
  while unsafe sem_wait(&semaphore) != 0 {}
  try unsafe result.get()
}
