// service.js - keeps the page for times without a network, and gives it shared memory: on a static server the headers
// for that come from here, at the second visit.  The network comes first, so that a new version is seen.
const CACHE = "chainrule-1";

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));
self.addEventListener("fetch", (event) => {
    const { request } = event;
    if (request.method !== "GET" || new URL(request.url).origin !== self.location.origin) return;
    event.respondWith(answer(request));
});

async function answer(request) {
    const cache = await caches.open(CACHE);
    try {
        const response = await fetch(request);
        if (response.ok) await cache.put(request, response.clone());
        return isolated(response);
    } catch (error) {
        const kept = await cache.match(request);
        if (kept) return isolated(kept);
        throw error;
    }
}

function isolated(response) {
    const headers = new Headers(response.headers);
    headers.set("Cross-Origin-Opener-Policy", "same-origin");
    headers.set("Cross-Origin-Embedder-Policy", "require-corp");
    headers.set("Cross-Origin-Resource-Policy", "same-origin");
    const { status, statusText } = response;
    return new Response(response.body, { status, statusText, headers });
}
