// Fetches a URL, and does what the server says with `Retry-After`.
//
//     swift run url-fetch
//
// A server that answers 429 or 503 may say when to come back. That is better than any guess of a
// policy: the failure names its open time, the breaker is open for just that long, and no process
// of this host asks the server meanwhile.
//
// `curl` does the fetching. The server is a small one inside this program, which answers by script.

import Glibc
import SharedBreaker

/// What an answer says about the server.
///
/// An open time is taken at its word, up to the policy's `openMax`, or a day if there is none. A 404 is a good answer to a bad question: the server works, so it is a success.
let http = Classifier<Answer>.values { answer in
  let error = "HTTP \(answer.status)"
  switch (answer.status, answer.retryAfter) {
  case (429, let wait?), (503, let wait?): return .failure(opensFor: wait, error: error)
  case (401, _), (403, _): return .permanentFailure(error: error)
  case (429, nil), (500..., _): return .failure(error: error)
  default: return .success
  }
}

func fetch(_ url: String, behind breaker: Breaker) throws {
  do {
    // A value that means failure is returned all the same. What `curl` throws, for it could not
    // connect or took too long, is a failure too: that is what is usual.
    let answer = try breaker.run(classify: http) { try Curl.get(url) }
    print("the server answers \(answer.status); the breaker is \(breaker.state.wireName)")
  } catch BreakerError.rejected(_, let rejection) {
    let wait = rejection.retryAfter ?? .seconds(1)
    print("rejected at once; waiting for \(wait.wholeMilliseconds) ms")
    usleep(UInt32(wait.wholeMilliseconds) * 1_000)
  }
}

var template = Array("/tmp/url-fetch.XXXXXX".utf8CString)
guard unsafe mkdtemp(&template) != nil else {
  unsafe perror("a directory in /tmp cannot be made")
  exit(1)
}
let directory = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)

// By itself this breaker would stay open for an hour: whenever it is open for a second below, that
// is what the server has named. Two failures without a word from the server would open it, too.
let store = SharedStore(path: directory + "/breakers.db")
let breaker = try store.breaker(
  "example.org", policy: BreakerPolicy(maxFailures: 2, openFor: .seconds(3_600)))

let server = try Server(answering: [
  "200 OK", "500 Internal Server Error", "429 Too Many Requests\r\nRetry-After: 1",
  "503 Service Unavailable\r\nRetry-After: 1", "200 OK",
])
var fetches = 0
do {
  while server.answered < server.answers.count {
    fetches += 1
    try fetch(server.url, behind: breaker)
  }
  print("\(server.answered) of \(fetches) fetches reached the server; it was spared the others.")
} catch {
  print("no answer: \(error)")
}
let end = breaker.snapshot()

store.close()
for suffix in ["", "-wal", "-shm", "-counters", "-lock"] {
  unsafe unlink(directory + "/breakers.db" + suffix)
}
unsafe rmdir(directory)
exit(end.trips == 2 && end.state == .closed ? 0 : 1)
